"""Listing, in both versions of the request."""

from common import S3Test

NAMES = sorted(f"train/{group}/img_{index:02}.npz" for group in "abc" for index in range(12))


class Lists(S3Test):
    def setUp(self):
        super().setUp()
        for name in reversed(NAMES):
            self.put(name, b"12345")
        self.put("valid/x")
        self.put("root")

    def pages(self, version, **asked):
        paginator = self.s3.get_paginator(version)
        return list(paginator.paginate(Bucket=self.bucket, **asked))

    def test_the_paginator_sees_every_key_once_and_sorted(self):
        for version in ["list_objects_v2", "list_objects"]:
            for size in [1, 5, 1000]:
                pages = self.pages(version, Prefix="train/", PaginationConfig={"PageSize": size})
                entries = [entry for page in pages for entry in page["Contents"]]
                self.assertEqual([entry["Key"] for entry in entries], NAMES)
                self.assertEqual({entry["Size"] for entry in entries}, {5})
                self.assertEqual(len(pages), -(-len(NAMES) // size))
        head = self.head(NAMES[0])
        listed = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=NAMES[0])["Contents"][0]
        self.assertEqual(listed["ETag"], head["ETag"])
        self.assertEqual(listed["LastModified"].replace(microsecond=0), head["LastModified"])

    def test_a_delimiter_rolls_up_folders(self):
        for version in ["list_objects_v2", "list_objects"]:
            for size in [1, 2, 1000]:
                config = {"PageSize": size}
                pages = self.pages(version, Delimiter="/", PaginationConfig=config)
                prefixes = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
                keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
                self.assertEqual((prefixes, keys), (["train/", "valid/"], ["root"]))
                pages = self.pages(version, Delimiter="/", Prefix="train/", PaginationConfig=config)
                prefixes = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
                self.assertEqual(prefixes, ["train/a/", "train/b/", "train/c/"])

    def test_a_list_goes_on_behind_a_key(self):
        after = self.s3.list_objects_v2(Bucket=self.bucket, StartAfter=NAMES[-1])
        self.assertEqual([entry["Key"] for entry in after["Contents"]], ["valid/x"])
        after = self.s3.list_objects(Bucket=self.bucket, Marker=NAMES[-1])
        self.assertEqual([entry["Key"] for entry in after["Contents"]], ["valid/x"])

    def test_what_is_deleted_is_not_listed(self):
        for name in NAMES:
            self.s3.delete_object(Bucket=self.bucket, Key=name)
        pages = self.pages("list_objects_v2", Delimiter="/")
        self.assertEqual([entry["Prefix"] for entry in pages[0]["CommonPrefixes"]], ["valid/"])
