//! The S3 operations that the server has. All others keep `s3s`'s answer, `NotImplemented`, and so do
//! versions, encryption and the like asked of these: they are refused rather than ignored.

mod buckets;
mod conditions;
mod copy;
mod delete;
mod get;
mod list;
mod multipart;
mod put;
mod receive;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CreateBucketInput,
    CreateBucketOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteBucketInput,
    DeleteBucketOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput,
    DeleteObjectsOutput, GetBucketLocationInput, GetBucketLocationOutput, GetObjectInput,
    GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput,
    ListBucketsInput, ListBucketsOutput, ListMultipartUploadsInput, ListMultipartUploadsOutput,
    ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput,
    ListPartsOutput, PostObjectInput, PostObjectOutput, PutObjectInput, PutObjectOutput,
    UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::store::Store;
use crate::uploads::Uploads;

/// The operations on a store.
pub(crate) struct Routes<S: Store> {
    // Parts go before the store that they are in.
    uploads: Uploads<S::Blob>,
    store: S,
}

impl<S: Store> Routes<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { uploads: Uploads::default(), store }
    }
}

/// Implements operations by functions of the modules here, each of which answers with the output.
macro_rules! operations {
    ($($operation:ident($input:ty) -> $output:ty = $module:ident;)*) => {
        #[async_trait::async_trait]
        impl<S: Store> S3 for Routes<S> {
            $(
                async fn $operation(
                    &self,
                    request: S3Request<$input>,
                ) -> S3Result<S3Response<$output>> {
                    $module::$operation(self, request).await.map(S3Response::new)
                }
            )*

            // `s3s` would make a PUT of it.
            async fn post_object(
                &self,
                _request: S3Request<PostObjectInput>,
            ) -> S3Result<S3Response<PostObjectOutput>> {
                Err(unsupported("uploads by HTML forms"))
            }
        }
    };
}

operations! {
    list_buckets(ListBucketsInput) -> ListBucketsOutput = buckets;
    create_bucket(CreateBucketInput) -> CreateBucketOutput = buckets;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = buckets;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = buckets;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = buckets;
    put_object(PutObjectInput) -> PutObjectOutput = put;
    get_object(GetObjectInput) -> GetObjectOutput = get;
    head_object(HeadObjectInput) -> HeadObjectOutput = get;
    copy_object(CopyObjectInput) -> CopyObjectOutput = copy;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = copy;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = delete;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = delete;
    list_objects(ListObjectsInput) -> ListObjectsOutput = list;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = list;
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = multipart;
    upload_part(UploadPartInput) -> UploadPartOutput = multipart;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = multipart;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = multipart;
    list_parts(ListPartsInput) -> ListPartsOutput = multipart;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = multipart;
}

/// The error for a wish that this server has not learned to fulfil.
fn unsupported(what: &str) -> S3Error {
    s3_error!(NotImplemented, "This server does not support {what}; docs/server.md has the list")
}

/// Fails with [`unsupported`] when one of the fields is set. What they ask for would otherwise be
/// taken as done.
macro_rules! refuse {
    ($input:expr, $what:literal: $($field:ident),+) => {
        if $($input.$field.is_some())||+ {
            return Err($crate::routes::unsupported($what));
        }
    };
}
use refuse;
