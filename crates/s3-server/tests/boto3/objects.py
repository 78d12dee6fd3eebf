"""Objects: written, read, described, copied and deleted."""

import base64
import hashlib
import io
import zlib

from common import MIB, Config, S3Test, body, client

PLAIN = "text/plain; charset=utf-8"


class Objects(S3Test):
    def test_what_is_put_is_what_is_got(self):
        for key, size in [("empty", 0), ("small", 5), ("folder/large", 3 * MIB + 1)]:
            put = self.put(key, body(size))
            got = self.get(key)
            self.assertEqual(got["Content"], body(size))
            self.assertEqual(got["ContentLength"], size)
            self.assertEqual(got["ETag"], put["ETag"])
            head = self.head(key)
            self.assertEqual((head["ContentLength"], head["ETag"]), (size, put["ETag"]))

    def test_the_sdk_sends_a_checksum_and_gets_it_back(self):
        content = body(100_000)
        crc32 = base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()
        self.assertEqual(self.put("k", content)["ChecksumCRC32"], crc32)
        head = self.head("k", ChecksumMode="ENABLED")
        self.assertEqual((head["ChecksumCRC32"], head["ChecksumType"]), (crc32, "FULL_OBJECT"))
        self.assertEqual(self.get("k")["ChecksumCRC32"], crc32)
        part = self.get("k", Range="bytes=0-9")
        self.assertNotIn("ChecksumCRC32", part)

    def test_a_stream_of_unknown_checksum_sends_it_behind_the_body(self):
        content = body(MIB + 1)
        self.s3.put_object(Bucket=self.bucket, Key="k", Body=io.BytesIO(content))
        self.assertEqual(self.get("k")["Content"], content)

    def test_every_algorithm_that_python_has_is_verified(self):
        for name in ["SHA1", "SHA256"]:
            digest = base64.b64encode(hashlib.new(name, b"x").digest()).decode()
            put = self.put(name, b"x", ChecksumAlgorithm=name)
            self.assertEqual(put[f"Checksum{name}"], digest)
            wrong = {f"Checksum{name}": base64.b64encode(hashlib.new(name, b"y").digest()).decode()}
            self.refused(400, "BadDigest", self.put, key=name, content=b"x", **wrong)

    def test_a_content_md5_is_verified(self):
        digest = lambda content: base64.b64encode(hashlib.md5(content).digest()).decode()
        self.put("k", b"x", ContentMD5=digest(b"x"))
        self.refused(400, "BadDigest", self.put, key="other", content=b"x", ContentMD5=digest(b"y"))
        self.assertEqual(self.keys(), ["k"])

    def test_ranges_are_cut_out(self):
        content = body(2 * MIB)
        self.put("k", content)
        for asked, start, end in [
            ("bytes=5-9", 5, 10),
            (f"bytes={MIB}-", MIB, 2 * MIB),
            ("bytes=-7", 2 * MIB - 7, 2 * MIB),
        ]:
            got = self.get("k", Range=asked)
            self.assertEqual(got["Content"], content[start:end])
            self.assertEqual(got["ContentRange"], f"bytes {start}-{end - 1}/{2 * MIB}")
        self.refused(416, "InvalidRange", self.get, key="k", Range=f"bytes={2 * MIB}-")

    def test_metadata_and_headers_come_back(self):
        said = {
            "ContentType": PLAIN,
            "ContentLanguage": "de",
            "ContentDisposition": "attachment",
            "ContentEncoding": "gzip",
            "CacheControl": "no-cache",
        }
        self.put("k", b"x", Metadata={"rank": "7", "note": "a b; c=d"}, **said)
        for answer in [self.head("k"), self.get("k")]:
            self.assertEqual(answer["Metadata"], {"rank": "7", "note": "a b; c=d"})
            self.assertEqual({name: answer[name] for name in said}, said)
        self.put("k", b"x")
        bare = self.head("k")
        self.assertEqual((bare["Metadata"], bare["ContentType"]), ({}, "binary/octet-stream"))

    def test_keys_may_hold_any_character(self):
        keys = ["a b+c%20&d=é", "x'\"<>;:@,$!*()[]{}|^`~#?", "日本/語🙂", "-._~", "\\back\\slash"]
        for key in keys:
            self.put(key, key.encode())
        for key in keys:
            self.assertEqual(self.get(key)["Content"], key.encode())
            self.s3.copy_object(
                Bucket=self.bucket, Key="copy/" + key, CopySource={"Bucket": self.bucket, "Key": key}
            )
        self.assertEqual(sorted(self.keys(), key=str.encode), self.keys())
        self.assertEqual(set(self.keys()), set(keys) | {"copy/" + key for key in keys})
        for key in self.keys():
            self.s3.delete_object(Bucket=self.bucket, Key=key)
        self.assertEqual(self.keys(), [])

    def test_a_copy_keeps_what_was_said_or_takes_what_is_said(self):
        self.put("k", body(MIB), ContentType=PLAIN, Metadata={"a": "1"})
        source = {"Bucket": self.bucket, "Key": "k"}
        copy = lambda key, **said: self.s3.copy_object(
            Bucket=self.bucket, Key=key, CopySource=source, **said
        )
        result = copy("kept")["CopyObjectResult"]
        kept = self.get("kept")
        self.assertEqual((kept["Content"], kept["ETag"]), (body(MIB), result["ETag"]))
        self.assertEqual((kept["ContentType"], kept["Metadata"]), (PLAIN, {"a": "1"}))
        self.assertEqual(kept["ChecksumCRC32"], self.head("k", ChecksumMode="ENABLED")["ChecksumCRC32"])

        copy("new", MetadataDirective="REPLACE", Metadata={"b": "2"}, ContentType="x/y")
        new = self.head("new")
        self.assertEqual((new["ContentType"], new["Metadata"]), ("x/y", {"b": "2"}))
        hashed = copy("hashed", ChecksumAlgorithm="SHA256")["CopyObjectResult"]
        sha256 = base64.b64encode(hashlib.sha256(body(MIB)).digest()).decode()
        self.assertEqual(hashed["ChecksumSHA256"], sha256)

        self.refused(400, "InvalidRequest", copy, key="k")
        copy("k", MetadataDirective="REPLACE", Metadata={"c": "3"})
        self.assertEqual(self.get("k")["Metadata"], {"c": "3"})
        source["Key"] = "missing"
        self.refused(404, "NoSuchKey", copy, key="x")

    def test_many_objects_are_deleted_at_once(self):
        for index in range(20):
            self.put(f"folder/{index:02}")
        named = lambda *keys: {"Objects": [{"Key": key} for key in keys]}
        answer = self.s3.delete_objects(
            Bucket=self.bucket, Delete=named("folder/00", "folder/01", "never there")
        )
        deleted = [entry["Key"] for entry in answer["Deleted"]]
        self.assertEqual(deleted, ["folder/00", "folder/01", "never there"])
        self.assertNotIn("Errors", answer)
        rest = named(*self.keys()) | {"Quiet": True}
        self.assertNotIn("Deleted", self.s3.delete_objects(Bucket=self.bucket, Delete=rest))
        self.assertEqual(self.keys(), [])

    def test_buckets_are_listed_and_go_when_they_are_empty(self):
        listed = {entry["Name"]: entry["CreationDate"] for entry in self.s3.list_buckets()["Buckets"]}
        self.assertIn(self.bucket, listed)
        self.assertGreater(listed[self.bucket].year, 2000)
        self.s3.head_bucket(Bucket=self.bucket)
        self.assertIsNone(self.s3.get_bucket_location(Bucket=self.bucket)["LocationConstraint"])
        self.put("k")
        self.refused(409, "BucketNotEmpty", self.s3.delete_bucket, Bucket=self.bucket)
        self.s3.delete_object(Bucket=self.bucket, Key="k")
        self.s3.delete_bucket(Bucket=self.bucket)
        self.refused(404, "404", self.s3.head_bucket, Bucket=self.bucket)
        self.refused(404, "NoSuchBucket", self.s3.list_objects_v2, Bucket=self.bucket)

    def test_what_is_not_supported_is_refused(self):
        self.put("k")
        for call, arguments in [
            (self.s3.get_object_tagging, {}),
            (self.s3.get_object, {"VersionId": "1"}),
            (self.s3.put_object, {"Tagging": "a=b"}),
        ]:
            self.refused(501, "NotImplemented", call, Bucket=self.bucket, Key="k", **arguments)

    def test_signed_bodies_are_taken_too(self):
        signing = client(
            config=Config(
                request_checksum_calculation="when_required", s3={"payload_signing_enabled": True}
            )
        )
        signing.put_object(Bucket=self.bucket, Key="k", Body=body(MIB))
        self.assertEqual(self.get("k")["Content"], body(MIB))
