"""Uploads in parts."""

import base64
import io
import zlib

from boto3.s3.transfer import TransferConfig

from common import MIB, Config, S3Test, body, client

PART = 5 * MIB


def crc32(content):
    return base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()


class Multipart(S3Test):
    def create(self, key="k", **said):
        created = self.s3.create_multipart_upload(Bucket=self.bucket, Key=key, **said)
        return {"Bucket": self.bucket, "Key": key, "UploadId": created["UploadId"]}

    def parts(self, upload, contents, **said):
        parts = []
        for number, content in enumerate(contents, 1):
            sent = self.s3.upload_part(PartNumber=number, Body=content, **upload, **said)
            checksums = {name: value for name, value in sent.items() if name.startswith("Checksum")}
            parts.append({"PartNumber": number, "ETag": sent["ETag"]} | checksums)
        return parts

    def complete(self, upload, parts, **said):
        return self.s3.complete_multipart_upload(
            MultipartUpload={"Parts": parts}, **upload, **said
        )

    def uploads(self, **asked):
        listed = self.s3.list_multipart_uploads(Bucket=self.bucket, **asked)
        return [(entry["Key"], entry["UploadId"]) for entry in listed.get("Uploads", [])]

    def test_two_parts_become_an_object(self):
        contents = [body(PART), body(PART)[::-1]]
        upload = self.create(ChecksumAlgorithm="CRC32", ContentType="x/y", Metadata={"a": "1"})
        parts = self.parts(upload, contents)
        self.assertEqual(self.keys(), [], "parts are no object")
        self.assertEqual(self.uploads(), [("k", upload["UploadId"])])
        done = self.complete(upload, parts)
        composite = crc32(b"".join(base64.b64decode(crc32(part)) for part in contents)) + "-2"
        self.assertEqual((done["ChecksumCRC32"], done["ChecksumType"]), (composite, "COMPOSITE"))
        got = self.get("k")
        self.assertEqual(got["Content"], b"".join(contents))
        self.assertEqual((got["ETag"], got["ContentType"]), (done["ETag"], "x/y"))
        self.assertEqual((got["Metadata"], got["ChecksumCRC32"]), ({"a": "1"}, composite))
        across = self.get("k", Range=f"bytes={PART - 3}-{PART + 2}")
        self.assertEqual(across["Content"], contents[0][-3:] + contents[1][:3])
        self.assertEqual(self.uploads(), [])
        self.refused(404, "NoSuchUpload", self.complete, upload=upload, parts=parts)

    def test_a_checksum_of_the_whole_object_is_computed_and_compared(self):
        contents = [body(PART), b"the end"]
        said = {"ChecksumType": "FULL_OBJECT"}
        upload = self.create(ChecksumAlgorithm="CRC32", **said)
        parts = self.parts(upload, contents, ChecksumAlgorithm="CRC32")
        wrong = crc32(b"something else")
        self.refused(
            400, "BadDigest", self.complete, upload=upload, parts=parts, ChecksumCRC32=wrong, **said
        )
        whole = crc32(b"".join(contents))
        done = self.complete(upload, parts, ChecksumCRC32=whole, **said)
        self.assertEqual((done["ChecksumCRC32"], done["ChecksumType"]), (whole, "FULL_OBJECT"))
        self.assertEqual(self.get("k")["ChecksumCRC32"], whole)

    def test_managed_uploads_downloads_and_copies_go_in_parts(self):
        config = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=4)
        content = body(2 * PART + 3)
        self.s3.upload_fileobj(io.BytesIO(content), self.bucket, "k", Config=config)
        read = io.BytesIO()
        self.s3.download_fileobj(self.bucket, "k", read, Config=config)
        self.assertEqual(read.getvalue(), content)
        source = {"Bucket": self.bucket, "Key": "k"}
        checked = {"ChecksumAlgorithm": "CRC32"}
        self.s3.copy(source, self.bucket, "copy", Config=config, ExtraArgs=checked)
        self.assertEqual(self.get("copy")["Content"], content)
        crc32s = {self.head(key, ChecksumMode="ENABLED")["ChecksumCRC32"] for key in ["k", "copy"]}
        self.assertEqual(len(crc32s), 1)
        self.assertTrue(crc32s.pop().endswith("-3"))

    def test_a_client_without_checksums_uploads_too(self):
        plain = client(config=Config(request_checksum_calculation="when_required"))
        self.s3 = plain
        upload = self.create()
        parts = self.parts(upload, [body(PART), b"x"])
        self.assertNotIn("ChecksumCRC32", self.complete(upload, parts))
        self.assertEqual(self.get("k")["Content"], body(PART) + b"x")

    def test_what_is_no_list_of_parts_is_refused_and_may_be_corrected(self):
        upload = self.create()
        first, second = self.parts(upload, [b"too small to have one behind it", b"2"])
        complete = lambda *parts: {"call": self.complete, "upload": upload, "parts": list(parts)}
        self.refused(400, "EntityTooSmall", **complete(first, second))
        self.refused(400, "InvalidPartOrder", **complete(second, first))
        self.refused(400, "InvalidPartOrder", **complete(second, second))
        self.refused(400, "InvalidPart", **complete(first | {"ETag": second["ETag"]}))
        self.refused(400, "InvalidPart", **complete(first | {"ChecksumCRC32": crc32(b"x")}))
        self.refused(400, "InvalidPart", **complete({"PartNumber": 7, "ETag": '"x"'}))
        self.refused(400, "MalformedXML", **complete())
        upload_part = {"call": self.s3.upload_part, "Body": b"", **upload}
        self.refused(400, "InvalidArgument", PartNumber=10_001, **upload_part)
        self.complete(upload, [second])
        self.assertEqual(self.get("k")["Content"], b"2")

    def test_a_part_may_be_sent_again(self):
        upload = self.create()
        self.parts(upload, [b"first try"])
        again = self.parts(upload, [b"second try"])
        listed = self.s3.list_parts(**upload)["Parts"]
        self.assertEqual([(part["PartNumber"], part["Size"]) for part in listed], [(1, 10)])
        self.assertEqual(listed[0]["ETag"], again[0]["ETag"])
        self.complete(upload, again)
        self.assertEqual(self.get("k")["Content"], b"second try")

    def test_parts_and_uploads_are_listed_in_pages(self):
        upload = self.create("b")
        self.parts(upload, [b"x"] * 5)
        pages = self.s3.get_paginator("list_parts").paginate(**upload, PaginationConfig={"PageSize": 2})
        numbers = [[part["PartNumber"] for part in page["Parts"]] for page in pages]
        self.assertEqual(numbers, [[1, 2], [3, 4], [5]])
        for key in ["c", "a", "b"]:
            self.create(key)
        paginator = self.s3.get_paginator("list_multipart_uploads")
        pages = paginator.paginate(Bucket=self.bucket, PaginationConfig={"PageSize": 1})
        keys = [entry["Key"] for page in pages for entry in page["Uploads"]]
        self.assertEqual(keys, ["a", "b", "b", "c"])
        self.assertEqual(len(self.uploads(Prefix="b")), 2)

    def test_an_aborted_upload_is_gone(self):
        upload = self.create()
        parts = self.parts(upload, [b"x"])
        self.s3.abort_multipart_upload(**upload)
        self.assertEqual((self.uploads(), self.keys()), ([], []))
        self.refused(404, "NoSuchUpload", self.complete, upload=upload, parts=parts)
        self.refused(404, "NoSuchUpload", self.s3.abort_multipart_upload, **upload)
        self.refused(404, "NoSuchUpload", self.s3.upload_part, PartNumber=1, Body=b"", **upload)

    def test_completing_may_depend_on_what_is_there(self):
        self.put("k", b"old")
        upload = self.create()
        parts = self.parts(upload, [b"new"])
        self.refused(
            412, "PreconditionFailed", self.complete, upload=upload, parts=parts, IfNoneMatch="*"
        )
        self.assertEqual(self.get("k")["Content"], b"old")
        self.complete(upload, parts)
        self.assertEqual(self.get("k")["Content"], b"new")
