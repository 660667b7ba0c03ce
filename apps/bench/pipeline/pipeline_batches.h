#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/launch/app_main.h"
#include "core/codec/codec.h"
#include "core/graph/graph.h"
#include "mesh/runtime/batch_source.h"

namespace weft::apps {

/// Input of a benchmark's model and its content.
struct PipelineInput {
  std::string name;
  std::string stream;               ///< Name of the random stream. Inputs of one stream have the
                                    ///< same numbers.
  std::vector<std::int64_t> shape;  ///< Shape per microbatch; dimension 0 counts rows.
  /// Offset in the row's stream: element i is number i + shift. Targets use 1, for the next tokens.
  std::int64_t shift = 0;
  std::int64_t limit = 0;  ///< Above 0: i32 in [0, limit). 0: f32 in [0, 1).

  static constexpr auto fields =
      weft::fields(&PipelineInput::name, &PipelineInput::stream, &PipelineInput::shape,
                   &PipelineInput::shift, &PipelineInput::limit);
  friend bool operator==(const PipelineInput&, const PipelineInput&) = default;
};

/// Description of a model's inputs, which the driver sends to device processes.
struct PipelineBatchesConfig {
  std::vector<PipelineInput> inputs;
  std::uint64_t seed = 1;

  static constexpr auto fields =
      weft::fields(&PipelineBatchesConfig::inputs, &PipelineBatchesConfig::seed);
  friend bool operator==(const PipelineBatchesConfig&, const PipelineBatchesConfig&) = default;
};

/// Describes the content of all inputs of a graph: integers in [0, limit) (`limit` is a vocabulary
/// or a number of classes), floats in [0, 1). If there are integer inputs "tokens" and "targets" of
/// one shape, the targets are the next tokens.
PipelineBatchesConfig pipeline_batches(const Graph& graph, std::int64_t limit,
                                       std::uint64_t seed = 1);

/// Pseudo-random batches without a data set. Every number is a function of (seed, stream, split,
/// step, row, place in the row). Used by the owner's thread only.
class PipelineBatches final : public mesh::BatchSource {
 public:
  explicit PipelineBatches(PipelineBatchesConfig config) : config_(std::move(config)) {}

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int microbatches, const Region& region, std::span<std::byte> out) override;

 private:
  const PipelineBatchesConfig config_;
};

/// Registers device processes whose batches are PipelineBatches.
void provide_pipeline_devices(actors::AppMain& app);

}  // namespace weft::apps
