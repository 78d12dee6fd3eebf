"""What is written before a restart is there after it: the Rust test runs one test, then the other."""

import os

from common import MIB, S3Test, body

BUCKET = "kept"
OBJECTS = {"a": body(5), "folder/b ü": body(3 * MIB)}


class Before(S3Test):
    def test_write(self):
        self.s3.create_bucket(Bucket=BUCKET)
        for key, content in OBJECTS.items():
            self.s3.put_object(
                Bucket=BUCKET, Key=key, Body=content, ContentType="x/y", Metadata={"key": "1"}
            )
        upload = self.s3.create_multipart_upload(
            Bucket=BUCKET, Key="c", ChecksumAlgorithm="CRC32"
        )
        at = {"Bucket": BUCKET, "Key": "c", "UploadId": upload["UploadId"]}
        part = self.s3.upload_part(PartNumber=1, Body=b"in parts", **at)
        parts = [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}]
        self.s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **at)
        unfinished = self.s3.create_multipart_upload(Bucket=BUCKET, Key="never")
        self.s3.upload_part(
            Bucket=BUCKET, Key="never", UploadId=unfinished["UploadId"], PartNumber=1, Body=b"x"
        )
        with open(os.environ["SEEN"], "w") as seen:
            seen.write(digest(self.s3))


class After(S3Test):
    def test_read(self):
        with open(os.environ["SEEN"]) as seen:
            self.assertEqual(digest(self.s3), seen.read())
        for key, content in OBJECTS.items():
            got = self.s3.get_object(Bucket=BUCKET, Key=key)
            self.assertEqual(got["Body"].read(), content)
        got = self.s3.get_object(Bucket=BUCKET, Key="c")
        self.assertEqual(got["Body"].read(), b"in parts")
        self.assertNotIn("Uploads", self.s3.list_multipart_uploads(Bucket=BUCKET))


def digest(s3):
    """Everything that a client can see of the objects of the bucket."""
    lines = []
    for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        head = s3.head_object(Bucket=BUCKET, Key=entry["Key"], ChecksumMode="ENABLED")
        shown = ["ETag", "LastModified", "ContentLength"]
        if keeps_attributes():
            shown += ["ContentType", "Metadata", "ChecksumCRC32"]
        lines.append(f"{entry['Key']} {entry['ETag']} {[head[name] for name in shown]}")
    return "\n".join(lines)


def keeps_attributes():
    """Whether the file system below the server has extended attributes."""
    probe = os.environ["SEEN"] + ".probe"
    with open(probe, "w"):
        try:
            os.setxattr(probe, "user.feedrate-test", b"x")
        except OSError:
            return False
    return True
