#pragma once

#include <string>
#include <vector>

#include "apps/bench/pipeline/emulated_graph.h"
#include "apps/bench/pipeline/pipeline_model.h"

namespace weft::apps {

/// Number and shape of a model's meshes, which are all alike.
struct ModelMeshes {
  int count = 2;
  int data = 1;
  int tensor = 1;
  int devices() const { return data * tensor; }
};

/// Returns the number of stages per mesh under the request's schedule; 1 if it names none.
int chunks_of(const PipelineModelRequest& request);

/// Places mesh i on host i and splits rows over "data". Stages have the given numbers of layers,
/// and the request's schedule places them.
mesh::ParallelConfig layout_of(const PipelineModelRequest& request, const ModelMeshes& meshes,
                               const std::vector<int>& layers, int microbatches);

/// Divides `layers` equally among the stages. Throws Error(kInvalidArgument) if that is impossible.
std::vector<int> equal_stages(const PipelineModelRequest& request, int meshes, int layers);

/// Scale of the paper's models.
struct PaperScale {
  double device_flops;  ///< FLOP/s of a device.
  double time_scale;
  double byte_scale;
  double link_rate_bits() const;
};
/// Returns the request's scale, with `usual` for unset values. Throws Error(kInvalidArgument) if
/// one is negative.
PaperScale scale_of(const PipelineModelRequest& request, const PaperScale& usual);
/// Returns the number of f32 elements for so many unscaled bytes: rounded, at least 1.
std::int64_t scaled_features(double bytes, const PaperScale& scale);

/// Makes the conditional U-Net "u-transformer-2b" or "u-transformer-1b", optionally with suffix
/// "-batch".
PipelineModel paper_u_transformer(const PipelineModelRequest& request);
/// Makes "gpt-2.6b", "gpt-2.6b-4", "gpt-1.3b".
PipelineModel paper_gpt(const PipelineModelRequest& request);
/// Makes "gpt-4b".
PipelineModel vocabulary_gpt(const PipelineModelRequest& request);
/// Makes "chain-P".
PipelineModel chain_model(const PipelineModelRequest& request, int meshes);
/// Makes "gpt-real-vocab".
PipelineModel real_vocabulary_gpt(const PipelineModelRequest& request);
/// Makes "gpt-real".
PipelineModel real_gpt(const PipelineModelRequest& request);
/// Makes "u-transformer-real".
PipelineModel real_u_transformer(const PipelineModelRequest& request);

}  // namespace weft::apps
