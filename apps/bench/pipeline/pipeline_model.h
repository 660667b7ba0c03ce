#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/pipeline/pipeline_batches.h"
#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// Name and scale of a model. 0 and "" select the model's own values.
struct PipelineModelRequest {
  std::string name = {};  ///< Any of pipeline_model_names(), or chain-P with P from 1 to 64.
  /// Named schedule, which decides the number and placement of stages per mesh (zb-v: two, in a V).
  /// "": one stage per mesh. U-Transformers always have one stage per mesh.
  std::string schedule = {};
  int chunks = 0;           ///< Stages per mesh, for schedules that allow any number.
  int microbatches = 0;     ///< Changes the batch, since the rows per microbatch are fixed.
  double time_scale = 0;    ///< The paper's models: see PipelineModel.
  double byte_scale = 0;    ///< The paper's models: see PipelineModel.
  double device_flops = 0;  ///< The paper's models: FLOP/s of a real device.
  /// chain-P: seconds of each of F, I and W on each mesh, all chunks together.
  double pass_seconds = 0.02;
  /// chain-P: transfer time of a microbatch between stages over F + I + W of a mesh (gpt-4b: over
  /// F); 0: a tensor of one element.
  double transfer_ratio = 0;
  double link_rate_bits = 400e6;  ///< chain-P: link rate to which the ratios refer.
  /// chain-P: devices of a mesh, each on a host of its own, that split the rows.
  int replicas = 1;
  /// chain-P with replicas: time to sum the gradients of a mesh over F + I + W.
  double reduction_ratio = 0;
  /// gpt-4b and gpt-real-vocab: stages, rows of the vocabulary, tokens of a sequence, and placement
  /// of the vocabulary.
  int stages = 0;
  std::int64_t vocabulary = 32 * 1024;
  std::int64_t sequence = 2048;
  mesh::VocabularyMode vocabulary_mode = mesh::VocabularyMode::kLast;
  bool redistributed = false;  ///< True for fewer layers on the last stage, which has the output
                               ///< layer.
  friend bool operator==(const PipelineModelRequest&, const PipelineModelRequest&) = default;
};

/// Workload of the pipeline benchmark: model, meshes, batch and scales.
struct PipelineModel {
  std::string name;
  std::string description;  ///< Single line with all numbers.
  bool emulated = true;     ///< True if it runs on emulated devices only.
  /// Meshes "mesh0", "mesh1", ... on hosts "host0", "host1", ...; stages, microbatches, sharding
  /// rules and the requested schedule. Each arm sets the rest.
  mesh::ParallelConfig layout;
  mesh::PlanConditions conditions;
  mesh::ModelGraphs graphs;       ///< Graphs of one microbatch.
  PipelineBatchesConfig batches;  ///< Content of the graphs' inputs.
  int hosts = 2;
  int devices_per_host = 1;
  /// Scaled rate of each host's link, each way; 0: the benchmark derives it from measured compute.
  double link_rate_bits = 0;
  double rows_per_step = 0;    ///< Samples or sequences.
  double flops_per_step = 0;   ///< FLOPs of the real model, re-computation included; 0:
                               ///< meaningless.
  double device_flops = 0;     ///< Scaled FLOP/s of an emulated device, for ops without seconds.
  bool scaled_weights = true;  ///< True if parameters are scaled by byte_scale too.
  double time_scale = 1;       ///< Emulated seconds * time_scale = real seconds.
  double byte_scale = 1;       ///< Bytes * byte_scale = real bytes.
};

/// Share of a link's rate for payload: TCP segments of 1448 bytes in frames of 1514.
inline constexpr double kLinkGoodput = 1448.0 / 1514.0;

/// Lists the hosts with their numbers of devices, for mesh::predict_places.
std::vector<std::pair<std::string, std::uint32_t>> hosts_of(const PipelineModel& model);

/// Lists the named models, in display order.
///
/// Emulated, from arXiv 2211.05322; links are the paper's 10 Gbit/s scaled:
///   u-transformer-2b, -1b    the conditional U-Net; meshes (1,4) and (1,2) that split weights, so
///                            activations are replicated
///   ...-batch                the same with activations split by batch on both sides: nothing is
///                            replicated
///   gpt-2.6b, gpt-1.3b       (dp 2, op 2) and (1, 2) per mesh, two stages; activations split over
///                            dp, replicated over op
///   gpt-2.6b-4               (dp 2, op 1) per mesh, four stages on four hosts
/// Emulated, from arXiv 2411.05288:
///   gpt-4b                   eight stages of one device; a real GPT's embedding and output layer,
///                            for vocabularies that outweigh layers
/// Real, on CPU devices, one per host; the benchmark chooses their link rate:
///   gpt-real, u-transformer-real
///   gpt-real-vocab           two or four stages, which the output layer outweighs
std::vector<std::string> pipeline_model_names();

/// Builds a model. Throws Error(kInvalidArgument) for an unknown name (with the nearest), a
/// schedule that does not fit, or a scale below 0.
PipelineModel make_pipeline_model(const PipelineModelRequest& request);

}  // namespace weft::apps
