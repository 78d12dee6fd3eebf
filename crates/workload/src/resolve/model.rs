//! `model.*`: all but the name concerns checkpoints.

use super::keys::{MANY, VERY_MANY};
use crate::settings::{Choices, Settings, file_name, short};
use crate::workload::{Datatype, Model, Parallelism, Transformer};

const DATATYPES: Choices<Datatype> = Choices {
    supported: &[
        ("fp16", Datatype::Fp16),
        ("bf16", Datatype::Bf16),
        ("fp32", Datatype::Fp32),
        ("fp64", Datatype::Fp64),
        ("int8", Datatype::Int8),
        ("uint8", Datatype::Uint8),
    ],
    not_supported: &[],
};

pub(super) fn model(settings: &mut Settings<'_>) -> Model {
    let size = |settings: &mut Settings<'_>, key, default| {
        settings.whole(key, 1..=VERY_MANY, default).value
    };
    let name = settings.text("model.name", file_name, "default").value;
    let kind = settings.optional_text("model.type", short::<200>).map(|kind| kind.value);
    let model_size_bytes = settings.whole("model.model_size_bytes", 0..=1 << 60, 10_240).value;
    let model_datatype = settings.choice("model.model_datatype", &DATATYPES, Datatype::Fp16).value;
    let optimizer_datatype =
        settings.choice("model.optimizer_datatype", &DATATYPES, Datatype::Fp32).value;
    let num_layers = settings.count("model.num_layers", 1..=MANY);
    let layer_parameters = settings.wholes("model.layer_parameters", 0..=1 << 60);
    let optimization_groups = settings.wholes("model.optimization_groups", 0..=1 << 60);
    let pipeline = settings.whole("model.parallelism.pipeline", 1..=u64::from(MANY), 1);
    let parallelism = Parallelism {
        tensor: settings.whole_u32("model.parallelism.tensor", 1..=MANY, 1),
        pipeline: pipeline.value as u32,
        data: settings.count("model.parallelism.data", 1..=MANY),
        zero_stage: settings.whole_u32("model.parallelism.zero_stage", 0..=3, 0),
    };
    if parallelism.pipeline > 1 && parallelism.zero_stage == 3 {
        settings.object(
            &pipeline.origin,
            "model.parallelism.pipeline",
            format!(
                "is {}, but model.parallelism.zero_stage 3 goes with 1 alone",
                parallelism.pipeline
            ),
        );
    }
    if let Some(layers) = num_layers
        && layers < parallelism.pipeline
    {
        settings.object(
            &pipeline.origin,
            "model.num_layers",
            format!(
                "is {layers}, fewer than the {} stages of model.parallelism.pipeline",
                parallelism.pipeline
            ),
        );
    }
    let transformer = Transformer {
        vocab_size: size(settings, "model.transformer.vocab_size", 32_000),
        hidden_size: size(settings, "model.transformer.hidden_size", 2_048),
        ffn_hidden_size: size(settings, "model.transformer.ffn_hidden_size", 8_192),
        num_attention_heads: size(settings, "model.transformer.num_attention_heads", 32),
        num_kv_heads: size(settings, "model.transformer.num_kv_heads", 8),
    };
    Model {
        name,
        kind,
        model_size_bytes,
        model_datatype,
        optimizer_datatype,
        num_layers,
        layer_parameters,
        optimization_groups,
        parallelism,
        transformer,
    }
}
