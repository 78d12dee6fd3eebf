"""Reading, writing and deleting on conditions."""

from datetime import timedelta

from common import S3Test


class Conditions(S3Test):
    def test_reads_depend_on_the_tag_and_the_date(self):
        etag = self.put("k", b"x")["ETag"]
        modified = self.head("k")["LastModified"]
        before, after = modified - timedelta(seconds=5), modified + timedelta(seconds=5)
        for read in [self.get, self.head]:
            # An answer to HEAD has no body to tell a code in.
            precondition = "412" if read == self.head else "PreconditionFailed"
            read("k", IfMatch=etag, IfModifiedSince=before)
            read("k", IfNoneMatch='"other"', IfUnmodifiedSince=after)
            self.refused(412, precondition, read, key="k", IfMatch='"other"')
            self.refused(412, precondition, read, key="k", IfUnmodifiedSince=before)
            self.refused(304, "304", read, key="k", IfNoneMatch=etag)
            self.refused(304, "304", read, key="k", IfNoneMatch="*")
            self.refused(304, "304", read, key="k", IfModifiedSince=modified)

    def test_only_the_first_writer_wins(self):
        self.put("k", b"1", IfNoneMatch="*")
        self.refused(412, "PreconditionFailed", self.put, key="k", content=b"2", IfNoneMatch="*")
        self.assertEqual(self.get("k")["Content"], b"1")

    def test_a_stale_writer_loses(self):
        first = self.put("k", b"1")["ETag"]
        second = self.put("k", b"2", IfMatch=first)["ETag"]
        self.refused(412, "PreconditionFailed", self.put, key="k", content=b"3", IfMatch=first)
        self.refused(404, "NoSuchKey", self.put, key="other", content=b"3", IfMatch=first)
        delete = self.s3.delete_object
        self.refused(412, "PreconditionFailed", delete, Bucket=self.bucket, Key="k", IfMatch=first)
        delete(Bucket=self.bucket, Key="k", IfMatch=second)
        self.assertEqual(self.keys(), [])

    def test_a_copy_depends_on_its_source(self):
        etag = self.put("k", b"1")["ETag"]
        copy = lambda **condition: self.s3.copy_object(
            Bucket=self.bucket,
            Key="copy",
            CopySource={"Bucket": self.bucket, "Key": "k"},
            **condition,
        )
        copy(CopySourceIfMatch=etag)
        self.refused(412, "PreconditionFailed", copy, CopySourceIfMatch='"other"')
        self.refused(412, "PreconditionFailed", copy, CopySourceIfNoneMatch=etag)
