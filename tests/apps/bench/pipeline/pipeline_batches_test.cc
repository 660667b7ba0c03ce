#include "apps/bench/pipeline/pipeline_batches.h"

#include <gtest/gtest.h>

#include "apps/models/gpt_graph.h"
#include "apps/models/u_transformer_graph.h"

namespace weft::apps {
namespace {

template <typename T>
std::vector<T> read(PipelineBatches& batches, const std::string& input, const Region& region,
                    std::uint64_t step = 3, int microbatch = 1,
                    mesh::Split split = mesh::Split::kTrain) {
  std::vector<T> values(static_cast<std::size_t>(region.num_elements()));
  batches.read(input, split, step, microbatch, 4, region,
               std::as_writable_bytes(std::span(values)));
  return values;
}

Region box(std::vector<Interval> intervals) { return Region(std::move(intervals)); }

PipelineBatches gpt_batches() {
  const GptGraph gpt = gpt_graph(
      {.layers = 1, .width = 8, .heads = 1, .sequence = 10, .batch = 4, .vocabulary = 50}, 1.0);
  return PipelineBatches(decode<PipelineBatchesConfig>(encode(pipeline_batches(gpt.graph, 50))));
}

TEST(PipelineBatches, TargetsAreTheNextTokens) {
  PipelineBatches batches = gpt_batches();
  const auto tokens = read<std::int32_t>(batches, "tokens", box({{2, 3}, {0, 10}}));
  const auto targets = read<std::int32_t>(batches, "targets", box({{2, 3}, {0, 10}}));
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) EXPECT_EQ(targets[i], tokens[i + 1]);
  for (const std::int32_t token : tokens) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 50);
  }
}

TEST(PipelineBatches, ARegionHoldsWhatTheWholeHoldsThere) {
  const UTransformerGraph unet =
      u_transformer_graph({.height = 8, .width = 16, .classes = 5, .batch = 3}, 1.0);
  PipelineBatches batches(pipeline_batches(unet.graph, 5));
  const Region all = box({{0, 3}, {0, 8}, {0, 16}, {0, 1}}),
               part = box({{1, 3}, {2, 5}, {3, 16}, {0, 1}});
  const auto whole = read<float>(batches, "pixels", all),
             some = read<float>(batches, "pixels", part);
  std::vector<float> expected(some.size());
  copy_region(part, sizeof(float), all, std::as_bytes(std::span(whole)), part,
              std::as_writable_bytes(std::span(expected)));
  EXPECT_EQ(some, expected);
  for (const float value : whole) {
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
  }
}

TEST(PipelineBatches, DifferByStepMicrobatchRowAndSplit) {
  PipelineBatches batches = gpt_batches();
  const Region first = box({{0, 1}, {0, 10}});
  const auto usual = read<std::int32_t>(batches, "tokens", first);
  EXPECT_EQ(read<std::int32_t>(batches, "tokens", first), usual);
  EXPECT_NE(read<std::int32_t>(batches, "tokens", first, 4), usual);
  EXPECT_NE(read<std::int32_t>(batches, "tokens", first, 3, 2), usual);
  EXPECT_NE(read<std::int32_t>(batches, "tokens", box({{1, 2}, {0, 10}})), usual);
  EXPECT_NE(read<std::int32_t>(batches, "tokens", first, 3, 1, mesh::Split::kValidation), usual);
}

}  // namespace
}  // namespace weft::apps
