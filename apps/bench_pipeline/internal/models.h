#pragma once

#include <string>
#include <vector>

#include "apps/bench_pipeline/emulated_graph.h"
#include "apps/bench_pipeline/pipeline_model.h"

namespace weft::apps {

/// Meshes of a model: all alike, with the axes "data" and "tensor".
struct ModelMeshes {
  int count = 2;
  int data = 1;
  int tensor = 1;
  int devices() const { return data * tensor; }
};

/// Stages that the request's schedule puts on every mesh; 1 where it names none.
int chunks_of(const PipelineModelRequest& request);

/// Mesh i on host i, rows split over "data"; stages of so many layers each, where the request's
/// schedule places them.
mesh::LayoutConfig layout_of(const PipelineModelRequest& request, const ModelMeshes& meshes,
                             const std::vector<int>& layers, int microbatches);

/// `layers` alike for all stages. Throws Error(kInvalidArgument) if they cannot be.
std::vector<int> equal_stages(const PipelineModelRequest& request, int meshes, int layers);

/// What the paper's models are scaled by.
struct PaperScale {
  double device_flops;  ///< FLOP/s of a device.
  double time_scale;
  double byte_scale;
  double link_rate_bits() const;
};
/// The request's, or else `usual`. Throws Error(kInvalidArgument) if one is negative.
PaperScale scale_of(const PipelineModelRequest& request, const PaperScale& usual);
/// f32 elements that stand for so many bytes: rounded, at least 1.
std::int64_t scaled_features(double bytes, const PaperScale& scale);

/// The conditional U-Net by the names "u-transformer-2b", "u-transformer-1b", with "-batch" behind
/// it or not.
PipelineModel paper_u_transformer(const PipelineModelRequest& request);
/// "gpt-2.6b", "gpt-2.6b-4", "gpt-1.3b".
PipelineModel paper_gpt(const PipelineModelRequest& request);
/// "gpt-4b".
PipelineModel vocabulary_gpt(const PipelineModelRequest& request);
/// "chain-P".
PipelineModel chain_model(const PipelineModelRequest& request, int meshes);
/// "gpt-real-vocab".
PipelineModel real_vocabulary_gpt(const PipelineModelRequest& request);
/// "gpt-real".
PipelineModel real_gpt(const PipelineModelRequest& request);
/// "u-transformer-real".
PipelineModel real_u_transformer(const PipelineModelRequest& request);

}  // namespace weft::apps
