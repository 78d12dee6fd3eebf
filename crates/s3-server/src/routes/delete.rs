//! Deleting objects.

use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    ETagCondition, Error,
};
use s3s::{S3Error, S3Request, S3Result, s3_error};

use super::{Routes, refuse, unsupported};
use crate::store::{Store, WriteCondition};

/// The most keys that S3 takes in one request.
const MAX_KEYS: usize = 1000;

/// Deletes an object. One that does not exist is deleted as well.
pub(super) async fn delete_object<S: Store>(
    routes: &Routes<S>,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<DeleteObjectOutput> {
    let input = request.input;
    refuse!(input, "versions": version_id, mfa);
    refuse!(input, "conditions on time and size": if_match_last_modified_time, if_match_size);
    let condition = WriteCondition { if_match: input.if_match, if_none_match: None };
    routes.store.delete(&input.bucket, &input.key, condition).await?;
    Ok(DeleteObjectOutput::default())
}

/// Deletes up to 1,000 objects; what goes wrong with one of them does not keep the others.
pub(super) async fn delete_objects<S: Store>(
    routes: &Routes<S>,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<DeleteObjectsOutput> {
    let DeleteObjectsInput { bucket, delete, mfa, .. } = request.input;
    if mfa.is_some() {
        return Err(unsupported("versions"));
    }
    if delete.objects.is_empty() || delete.objects.len() > MAX_KEYS {
        return Err(s3_error!(
            MalformedXML,
            "One request deletes 1 to {MAX_KEYS} objects, not {}",
            delete.objects.len()
        ));
    }
    routes.store.check_bucket(&bucket).await?;
    let is_quiet = delete.quiet.unwrap_or_default();
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for object in delete.objects {
        let result: S3Result = if object.version_id.is_some()
            || object.last_modified_time.is_some()
            || object.size.is_some()
        {
            Err(unsupported("versions and conditions on time and size"))
        } else {
            let if_match = object.e_tag.map(ETagCondition::ETag);
            let condition = WriteCondition { if_match, if_none_match: None };
            routes.store.delete(&bucket, &object.key, condition).await.map_err(S3Error::from)
        };
        match result {
            Ok(()) if is_quiet => {}
            Ok(()) => deleted.push(DeletedObject { key: Some(object.key), ..Default::default() }),
            Err(error) => errors.push(Error {
                code: Some(error.code().as_str().to_owned()),
                message: error.message().map(str::to_owned),
                key: Some(object.key),
                version_id: None,
            }),
        }
    }
    Ok(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), ..Default::default() })
}
