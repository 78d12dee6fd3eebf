"""Who is let in, and by which address."""

import os
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from common import ENDPOINT, Config, S3Test, body, client, resolve_localhost

READ_ONLY = {
    "aws_access_key_id": os.environ["READ_ONLY_ACCESS_KEY_ID"],
    "aws_secret_access_key": os.environ["READ_ONLY_SECRET_ACCESS_KEY"],
}


class Access(S3Test):
    def test_wrong_keys_are_refused(self):
        own_id = os.environ["AWS_ACCESS_KEY_ID"]
        wrong_secret = client(aws_access_key_id=own_id, aws_secret_access_key="guess")
        wrong_id = client(aws_access_key_id="nobody", aws_secret_access_key="guess")
        for who, code in [(wrong_secret, "SignatureDoesNotMatch"), (wrong_id, "InvalidAccessKeyId")]:
            self.refused(403, code, who.list_buckets)
            self.refused(403, code, who.put_object, Bucket=self.bucket, Key="k", Body=body(100_000))
            self.refused(403, code, who.get_object, Bucket=self.bucket, Key="k")
        self.assertEqual(self.keys(), [])

    def test_a_read_only_key_reads_and_changes_nothing(self):
        self.put("k", b"x")
        reader = client(**READ_ONLY)
        at = {"Bucket": self.bucket, "Key": "k"}
        self.assertEqual(reader.get_object(**at)["Body"].read(), b"x")
        reader.head_object(**at)
        reader.list_objects_v2(Bucket=self.bucket)
        reader.list_buckets()
        for call, arguments in [
            (reader.put_object, at | {"Body": b"y"}),
            (reader.delete_object, at),
            (reader.delete_objects, {"Bucket": self.bucket, "Delete": {"Objects": [{"Key": "k"}]}}),
            (reader.copy_object, at | {"CopySource": {"Bucket": self.bucket, "Key": "k"}}),
            (reader.create_multipart_upload, at),
            (reader.create_bucket, {"Bucket": "another"}),
            (reader.delete_bucket, {"Bucket": self.bucket}),
        ]:
            message = self.refused(403, "AccessDenied", call, **arguments)
            self.assertIn("read-only", message)
        self.assertEqual(self.get("k")["Content"], b"x")

    def test_presigned_urls_need_no_keys(self):
        at = {"Bucket": self.bucket, "Key": "a b/ü"}
        # What boto3 does by itself is version 2.
        for signature in ["s3", "s3v4"]:
            signer = client(config=Config(signature_version=signature))
            write = signer.generate_presigned_url("put_object", Params=at)
            # Python would say that it sends a form, which is not what was signed.
            send = urllib.request.Request(write, b"x", {"Content-Type": ""}, method="PUT")
            urllib.request.urlopen(send).close()
            read = signer.generate_presigned_url("get_object", Params=at)
            with urllib.request.urlopen(read) as got:
                self.assertEqual(got.read(), b"x")
            urls = [read.replace("a%20b", "another"), read.split("?")[0]]
            if signature == "s3":
                urls.append(signer.generate_presigned_url("get_object", Params=at, ExpiresIn=-10))
            for url in urls:
                with self.assertRaises(urllib.error.HTTPError) as failed:
                    urllib.request.urlopen(url)
                self.assertEqual(failed.exception.code, 403, url)
                failed.exception.close()

    def test_a_bucket_may_be_named_in_the_host(self):
        resolve_localhost()
        port = urlsplit(ENDPOINT).port
        by_host = client(
            endpoint_url=f"http://localhost:{port}", config=Config(s3={"addressing_style": "virtual"})
        )
        content = body(100_000)
        by_host.put_object(Bucket=self.bucket, Key="a/b c", Body=content)
        self.assertEqual(self.get("a/b c")["Content"], content)
        got = by_host.get_object(Bucket=self.bucket, Key="a/b c")
        self.assertEqual(got["Body"].read(), content)
        host = urlsplit(by_host.generate_presigned_url("head_bucket", {"Bucket": self.bucket})).netloc
        self.assertEqual(host, f"{self.bucket}.localhost:{port}")
        listed = by_host.list_objects_v2(Bucket=self.bucket)["Contents"]
        self.assertEqual([entry["Key"] for entry in listed], ["a/b c"])
