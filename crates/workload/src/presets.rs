//! The workloads that come with the program: `workloads/*.yaml` of the repository, every one that DLIO
//! and MLPerf Storage have. `docs/workloads.md` shows them with what they demand of a store.

use std::fmt;

/// A workload file compiled into the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What kind of workload it is.
    pub group: Group,
    /// One line about it.
    pub description: &'static str,
    /// The YAML text.
    pub yaml: &'static str,
}

/// Kinds of presets; `Display` is a heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Of the current MLPerf Storage, scored or not.
    Current,
    /// Of earlier MLPerf Storage, and of DLIO under the same names.
    Earlier,
    /// Data sets alone, for those that name a workload of its own for them.
    Datagen,
    /// Checkpoints without training.
    Checkpoints,
    /// Of DLIO alone.
    Dlio,
    /// Of DLIO, with a store named in the file.
    S3,
    /// Replaced before MLPerf Storage v3.0 was final.
    Draft,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "MLPerf Storage v3.0",
            Self::Earlier => "MLPerf Storage v1.0 and v2.0",
            Self::Datagen => "Data sets of MLPerf Storage, without training",
            Self::Checkpoints => "Checkpoints of large language models",
            Self::Dlio => "Others of DLIO",
            Self::S3 => "Of DLIO, in an S3 store",
            Self::Draft => "Superseded drafts of MLPerf Storage v3.0",
        })
    }
}

macro_rules! presets {
    ($($group:ident { $($name:literal: $description:literal,)+ })+) => {
        &[$($(Preset {
            name: $name,
            group: Group::$group,
            description: $description,
            yaml: include_str!(concat!("../../../workloads/", $name, ".yaml")),
        }),+),+]
    };
}

static PRESETS: &[Preset] = presets! {
    Current {
        "unet3d_b200":
            "3D U-Net, NVIDIA B200: 7,200 NPZ files of 146,600,628 ± 68,341,808 bytes, batch 7",
        "retinanet_b200":
            "RetinaNet, NVIDIA B200: 1,170,301 JPEG images of 322,957 bytes, batch 24",
        "retinanet_mi355": "RetinaNet, AMD MI355: 1,170,301 JPEG images of 322,957 bytes, batch 32",
        "flux_b200":
            "FLUX.1, NVIDIA B200: 4,296 Parquet files of 288 samples of 2,164,832 bytes, batch 48",
        "flux_mi355":
            "FLUX.1, AMD MI355: 4,296 Parquet files of 288 samples of 2,164,832 bytes, batch 72",
        "dlrm_b200":
            "DLRM, NVIDIA B200: 1,024 Parquet files of 4,718,592 samples, 160 of 761 bytes read, \
             batch 16,384",
        "dlrm_mi355":
            "DLRM, AMD MI355: 1,024 Parquet files of 4,718,592 samples, 160 of 761 bytes read, \
             batch 16,384",
    }
    Earlier {
        "unet3d_h100":
            "3D U-Net, NVIDIA H100: 168 NPZ files of 146,600,628 ± 68,341,808 bytes, batch 7",
        "unet3d_a100":
            "3D U-Net, NVIDIA A100: 168 NPZ files of 146,600,628 ± 68,341,808 bytes, batch 7",
        "resnet50_h100":
            "ResNet-50, NVIDIA H100: 1,024 TFRecord files of 1,251 images of 114,660 bytes, \
             batch 400",
        "resnet50_a100":
            "ResNet-50, NVIDIA A100: 1,024 TFRecord files of 1,251 images of 114,660 bytes, \
             batch 400",
        "cosmoflow_h100":
            "CosmoFlow, NVIDIA H100: 524,288 TFRecord files of 2,828,486 ± 71,311 bytes, batch 1",
        "cosmoflow_a100":
            "CosmoFlow, NVIDIA A100: 524,288 TFRecord files of 2,828,486 ± 71,311 bytes, batch 1",
    }
    Datagen {
        "unet3d_datagen":
            "The data set of 3D U-Net (v1.0, v2.0): 168 NPZ files of 146,600,628 ± 68,341,808 \
             bytes",
        "retinanet_datagen": "The data set of RetinaNet: 1,170,301 JPEG images of 322,957 bytes",
        "flux_datagen":
            "The data set of FLUX.1: 4,296 Parquet files of 288 samples of 2,164,832 bytes",
        "dlrm_datagen":
            "The data set of DLRM: 1,024 Parquet files of 4,718,592 samples of 761 bytes",
        "resnet50_datagen":
            "The data set of ResNet-50: 1,024 TFRecord files of 1,251 images of 114,660 bytes",
        "cosmoflow_datagen":
            "The data set of CosmoFlow: 524,288 TFRecord files of 2,828,486 ± 71,311 bytes",
    }
    Checkpoints {
        "llama3_8b": "Checkpoints of Llama 3 8B: ZeRO 3",
        "llama3_70b": "Checkpoints of Llama 3 70B: tensor parallelism 8, ZeRO 3",
        "llama3_405b":
            "Checkpoints of Llama 3 405B: tensor parallelism 8, pipeline parallelism 32, ZeRO 1",
        "llama3_1t":
            "Checkpoints of Llama 3 1T: tensor parallelism 8, pipeline parallelism 64, ZeRO 1",
        "llama_7b": "Checkpoints of Llama 7B as DLIO has them: ZeRO 1",
        "llama_7b_zero3": "Checkpoints of Llama 7B as DLIO has them: ZeRO 3",
        "llama_8b_zero3": "Checkpoints of Llama 3 8B as DLIO has them: ZeRO 3",
        "llama_70b":
            "Checkpoints of Llama 3 70B as DLIO has them: tensor parallelism 8, pipeline \
             parallelism 4, ZeRO 1",
        "llama_70b_zero3":
            "Checkpoints of Llama 3 70B as DLIO has them: tensor parallelism 8, ZeRO 3",
        "llama_405b":
            "Checkpoints of Llama 3 405B as DLIO has them: tensor parallelism 8, pipeline \
             parallelism 32, ZeRO 1",
        "llama_1t":
            "Checkpoints of Llama 3 1T as DLIO has them: tensor parallelism 8, pipeline \
             parallelism 64, ZeRO 1",
    }
    Dlio {
        "default":
            "What dlio_benchmark runs unless told otherwise: 64 NPZ files of 4,096 bytes, \
             evaluation, batch 4",
        "unet3d_v100":
            "3D U-Net, NVIDIA V100: 168 NPZ files of 146,600,628 ± 68,341,808 bytes, batch 4",
        "resnet50_v100":
            "ResNet-50, NVIDIA V100: 1,024 TFRecord files of 1,251 images of 114,660 bytes, \
             batch 64",
        "resnet50_tf":
            "ResNet-50 with TensorFlow: 1,024 TFRecord files of 1,251 images of 114,660 bytes, \
             batch 64",
        "cosmoflow_v100":
            "CosmoFlow, NVIDIA V100: 524,288 TFRecord files of 2,828,486 ± 71,311 bytes, batch 1",
        "bert_v100":
            "BERT, NVIDIA V100: 500 TFRecord files of 313,532 samples of 2,500 bytes, batch 48",
        "dlrm": "DLRM: one indexed file of 1,024 records of 671,088,640 bytes, batch 1",
        "dlrm_s3dlio_file":
            "DLRM from a folder: 64 Parquet files of 1,000,000 samples of 1,024 bytes, batch 2,048",
        "megatron_deepspeed_LLNL":
            "Megatron-DeepSpeed: one memory-mapped file of 277,203,535 samples of 2,048 bytes, \
             batch 16",
    }
    S3 {
        "unet3d_h100_s3":
            "3D U-Net, NVIDIA H100, S3: 168 NPZ objects of 146,600,628 bytes, generated first, \
             batch 7",
        "unet3d_a100_s3":
            "3D U-Net, NVIDIA A100, S3: 168 NPZ objects of 146,600,628 bytes, generated first, \
             batch 7",
        "unet3d_v100_s3":
            "3D U-Net, NVIDIA V100, S3: 168 NPY objects of 146,600,628 bytes, generated first, \
             batch 4",
        "dlrm_s3dlio_s3":
            "DLRM, S3: 64 Parquet objects of 1,000,000 samples of 1,024 bytes, batch 2,048",
    }
    Draft {
        "unet3d_h100_draft":
            "3D U-Net, NVIDIA H100, superseded draft: 168 NPZ files of 146,600,628 ± 68,341,808 \
             bytes, batch 7, no checkpoints",
        "unet3d_a100_draft":
            "3D U-Net, NVIDIA A100, superseded draft: 168 NPZ files of 146,600,628 ± 68,341,808 \
             bytes, batch 7, no checkpoints",
        "retinanet_h100_draft":
            "RetinaNet, NVIDIA H100, superseded draft: 1,743,042 JPEG images of 153,600 ± 51,200 \
             bytes, batch 16",
        "retinanet_a100_draft":
            "RetinaNet, NVIDIA A100, superseded draft: 1,743,042 JPEG images of 153,600 ± 51,200 \
             bytes, batch 16",
        "flux_b200_draft":
            "FLUX.1, NVIDIA B200, superseded draft: 4,296 Parquet files of 256 samples of \
             2,164,832 bytes, batch 64",
        "flux_h100_draft":
            "FLUX.1, NVIDIA H100, superseded draft: 1,099,776 JPEG images of 307,200 ± 102,400 \
             bytes, batch 8",
        "flux_a100_draft":
            "FLUX.1, NVIDIA A100, superseded draft: 1,099,776 JPEG images of 307,200 ± 102,400 \
             bytes, batch 8",
        "dlrm_h100_draft":
            "DLRM, NVIDIA H100, superseded draft: 65,536 NPZ files of 512 bytes, batch 8,192",
        "dlrm_a100_draft":
            "DLRM, NVIDIA A100, superseded draft: 65,536 NPZ files of 512 bytes, batch 8,192",
    }
};

/// All presets, group by group, superseded ones last.
pub fn all() -> &'static [Preset] {
    PRESETS
}

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|preset| preset.name)
}

/// The preset called `name`.
pub fn get(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_found_by_name() {
        for preset in all() {
            assert_eq!(get(preset.name), Some(preset), "{} stands in the table twice", preset.name);
            assert!(!preset.description.contains('\n'));
        }
        assert_eq!(get("retinanet"), None);
    }

    #[test]
    fn every_workload_file_of_the_repository_is_in_the_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut table: Vec<String> = names().map(|name| format!("{name}.yaml")).collect();
        table.sort();
        assert_eq!(table, files);
    }

    #[test]
    fn what_is_named_a_draft_is_one() {
        for preset in all() {
            assert_eq!(
                preset.name.ends_with("_draft"),
                preset.group == Group::Draft,
                "{}",
                preset.name
            );
            let is_said = preset.description.contains("superseded draft");
            assert_eq!(is_said, preset.group == Group::Draft, "{}", preset.name);
        }
    }

    #[test]
    fn no_preset_holds_a_key_of_a_store() {
        for preset in all() {
            let mut keys = preset.yaml.lines().filter(|line| !line.trim_start().starts_with('#'));
            assert!(keys.all(|line| !crate::names_secret(line)), "{}", preset.name);
        }
    }
}
