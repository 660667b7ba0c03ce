#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench_pipeline/pipeline_batches.h"
#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// Which model, and how to scale it. 0 and "": what the model itself prefers.
struct PipelineModelRequest {
  std::string name = {};  ///< One of pipeline_model_names(), or chain-P with P from 1 to 64.
  /// A named schedule: decides how many stages each mesh has and where they lie (zb-v: two, in a
  /// V). "": one stage per mesh. U-Transformers always have one stage per mesh.
  std::string schedule = {};
  int chunks = 0;           ///< Stages per mesh, for schedules that leave it open.
  int microbatches = 0;     ///< Rows per microbatch stay, so this changes the batch.
  double time_scale = 0;    ///< Of the paper's models; see PipelineModel.
  double byte_scale = 0;    ///< Of the paper's models; see PipelineModel.
  double device_flops = 0;  ///< FLOP/s of a real device, for the paper's models.
  /// Of chain-P: what F, I and W take on each mesh, all chunks together.
  double pass_seconds = 0.02;
  /// Of chain-P: transfer of a microbatch between stages in units of F + I + W of a mesh (gpt-4b:
  /// of F); 0: a tensor of one element.
  double transfer_ratio = 0;
  double link_rate_bits = 400e6;  ///< Of chain-P: the rate at which the ratios are meant.
  /// Of chain-P: devices of a mesh, each on a host of its own, that split the rows.
  int replicas = 1;
  /// Of chain-P with replicas: summing the gradients of a mesh, in the same units as
  /// transfer_ratio.
  double reduction_ratio = 0;
  /// Of gpt-4b and gpt-real-vocab: stages, rows of the vocabulary, tokens of a sequence, and where
  /// the vocabulary lies.
  int stages = 0;
  std::int64_t vocabulary = 32 * 1024;
  std::int64_t sequence = 2048;
  mesh::VocabularyMode vocabulary_mode = mesh::VocabularyMode::kLast;
  bool redistributed = false;  ///< Fewer layers on the last stage, which has the output layer.
  friend bool operator==(const PipelineModelRequest&, const PipelineModelRequest&) = default;
};

/// One workload of the pipeline benchmark: model, meshes, batch, and what its ratios stand for. A
/// value.
struct PipelineModel {
  std::string name;
  std::string description;  ///< One line with all numbers.
  bool emulated = true;     ///< To be run on emulated devices only.
  /// Meshes "mesh0", "mesh1", ... on hosts "host0", "host1", ...; stages, microbatches, sharding
  /// rules. Its schedule is the one that was asked for; the rest is for each arm to set.
  mesh::LayoutConfig layout;
  mesh::ModelGraphs graphs;       ///< For one microbatch.
  PipelineBatchesConfig batches;  ///< Fills the graphs' inputs.
  int hosts = 2;
  int devices_per_host = 1;
  /// Of each host, each way, scaled; 0: the benchmark chooses it from measured compute.
  double link_rate_bits = 0;
  double rows_per_step = 0;    ///< Samples or sequences.
  double flops_per_step = 0;   ///< Of the real model, re-computation included; 0: of no meaning.
  double device_flops = 0;     ///< FLOP/s, scaled, of an emulated device for ops without seconds.
  bool scaled_weights = true;  ///< Those of parameters are scaled by byte_scale too.
  double time_scale = 1;       ///< Emulated seconds * time_scale = real seconds.
  double byte_scale = 1;       ///< Bytes * byte_scale = real bytes.
};

/// What of a link's rate is left for data: TCP segments of 1448 bytes in frames of 1514.
inline constexpr double kLinkGoodput = 1448.0 / 1514.0;

/// Hosts with their devices, as mesh::plan_places wants them.
std::vector<std::pair<std::string, std::uint32_t>> hosts_of(const PipelineModel& model);

/// Those with names of their own, in the order to show them.
///
/// Emulated, from reference/resharding.md 3.5 and 6; links are the paper's 10 Gbit/s scaled:
///   u-transformer-2b, -1b    the conditional U-Net; meshes (1,4) and (1,2) that split weights, so
///                            activations are replicated
///   ...-batch                the same with activations split by batch on both sides: nothing is
///                            replicated
///   gpt-2.6b, gpt-1.3b       (dp 2, op 2) and (1, 2) per mesh, two stages; activations split over
///                            dp, replicated over op
///   gpt-2.6b-4               (dp 2, op 1) per mesh, four stages on four hosts
/// Emulated, from reference/schedules.md 2.4 (arXiv 2411.05288):
///   gpt-4b                   eight stages of one device; embedding and output layer as they are in
///                            a real GPT, for vocabularies that outweigh layers
/// Real, on CPU devices, one per host; their link rate is the benchmark's to choose:
///   gpt-real, u-transformer-real
///   gpt-real-vocab           two or four stages whose output layer outweighs them
std::vector<std::string> pipeline_model_names();

/// Throws Error(kInvalidArgument) for an unknown name (with the nearest), a schedule that does not
/// fit, or a scale below 0.
PipelineModel make_pipeline_model(const PipelineModelRequest& request);

}  // namespace weft::apps
