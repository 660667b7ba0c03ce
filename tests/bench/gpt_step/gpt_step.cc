// gpt_step: how long one training step of a GPT takes on one CPU device: forward, backward, clipping to a
// global norm, AdamW.
//   gpt_step [--shape large|small|tiny|...] [--steps N] [--threads N] [--ops] [--json]
//   gpt_step --dump DIR, then gpt_step --losses DIR: initial values and tokens in files, and the losses of training on them; what
// tests/bench/peers/pytorch_gpt_step.py --weights DIR does too.
#include <fmt/format.h>

#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/gpt_model/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/statistics.h"
#include "core/device_cpu/cpu_device.h"
#include "core/evaluate/one_device_trainer.h"
#include "core/ops/op_definition.h"
#include "tests/bench/gpt_step/fixed_data.h"
#include "tests/bench/gpt_step/timed_device.h"

namespace weft {
namespace {

const std::map<std::string, apps::GptShape> kShapes{
    {"1.3b", {.layers = 24, .width = 2048, .heads = 16, .sequence = 1024, .batch = 8, .vocabulary = 50304}},
    {"350m", {.layers = 24, .width = 1024, .heads = 16, .sequence = 1024, .batch = 16, .vocabulary = 50304}},
    {"124m", {.layers = 12, .width = 768, .heads = 12, .sequence = 1024, .batch = 32, .vocabulary = 50304}},
    {"large", {.layers = 6, .width = 384, .heads = 6, .sequence = 256, .batch = 8, .vocabulary = 4096}},
    {"small", {.layers = 4, .width = 128, .heads = 4, .sequence = 128, .batch = 16, .vocabulary = 2048}},
    {"tiny", {.layers = 2, .width = 64, .heads = 2, .sequence = 32, .batch = 2, .vocabulary = 128}},
};

double seconds_of(const Clock& clock, const auto& work) {
  const TimePoint begin = clock.now();
  work();
  return std::chrono::duration<double>(clock.now() - begin).count();
}

/// CPU time of this process so far, in seconds: what a step costs even when others use the machine.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The rate of the device's own fp32 product of two 1024x1024 matrices: the best of several.
double matmul_rate(const Clock& clock, Device& device) {
  constexpr std::int64_t kSize = 1024;
  const TensorType type{DType::kF32, {kSize, kSize}};
  const DeviceMemory memory = device.allocate(3 * type.bytes());
  const auto at = [&](std::size_t i) { return memory.data() + i * type.bytes(); };
  const auto stream = device.create_stream();
  stream->fill_zero({memory.data(), memory.size()});
  const Op linear{OpKind::kLinear, {}};
  const std::vector<ConstTensorRef> inputs{{type, at(0)}, {type, at(1)}};
  const std::vector<TensorRef> outputs{{type, at(2)}};
  double best = 1e9;
  for (int i = 0; i < 8; ++i) best = std::min(best, seconds_of(clock, [&] { stream->run(linear, inputs, outputs); }));
  return 2.0 * kSize * kSize * kSize / best;
}

/// Floating-point operations of the matrix products of a step, attention's causal half included; what others
/// count too.
double matmul_flops(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes()) {
    const auto name = to_string(node.op.kind);
    if (name.starts_with("linear") || name.starts_with("attention")) sum += cost(graph, node).flops;
  }
  return sum;
}

struct Options {
  std::string shape = "small";
  int steps = 10;
  int threads = 1;
  std::int64_t batch = 0;  // 0: the shape's
  std::string dump, losses;
  bool per_op = false;
  bool json = false;
};

apps::GptShape shape_of(const Options& options) {
  apps::GptShape shape = kShapes.at(options.shape);
  if (options.batch > 0) shape.batch = options.batch;
  return shape;
}

const AdamW kOptimizer{.learning_rate = 3e-4, .weight_decay = 0.1};
constexpr double kClipNorm = 1.0;
constexpr std::uint64_t kSeed = 1;

void feed(Evaluation& evaluation, const apps::GptGraph& gpt, std::span<const std::int32_t> tokens,
          std::span<const std::int32_t> targets) {
  std::ranges::copy(tokens, evaluation.data<std::int32_t>(gpt.tokens).begin());
  std::ranges::copy(targets, evaluation.data<std::int32_t>(gpt.targets).begin());
}

/// The losses of training on what --dump has written.
int train_on(const std::filesystem::path& folder, const Options& options) {
  const apps::GptShape shape = shape_of(options);
  const test::FixedTokens data(folder, shape);
  const apps::GptGraph gpt = apps::gpt_graph(shape, 1 / static_cast<double>(shape.batch * shape.sequence));
  CpuDevice device({options.threads, std::nullopt});
  OneDeviceTrainer trainer(device, differentiate(gpt.graph, gpt.loss), kSeed);
  std::vector<double> losses;
  for (int step = 0; step < std::min(options.steps, data.steps()); ++step) {
    const auto feed_step = [&](int, Evaluation& evaluation) { feed(evaluation, gpt, data.tokens(step), data.targets(step)); };
    losses.push_back(trainer.step(1, feed_step, kOptimizer, kClipNorm).loss);
  }
  const nlohmann::json record{
      {"benchmark", "gpt_step"}, {"shape", options.shape}, {"device", device.description()}, {"losses", losses}};
  fmt::print("{}\n", record.dump());
  return 0;
}

int run(const Options& options) {
  const SteadyClock clock;
  const apps::GptShape shape = shape_of(options);
  const double tokens = static_cast<double>(shape.batch * shape.sequence);
  const apps::GptGraph gpt = apps::gpt_graph(shape, 1 / tokens);
  const TrainingGraph training = differentiate(gpt.graph, gpt.loss);
  const double flops = matmul_flops(training.graph);
  CpuDevice cpu_device({options.threads, std::nullopt});
  test::TimedDevice device(cpu_device, clock);
  OneDeviceTrainer trainer(device, training, kSeed);
  PhiloxStream random(1);
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(shape.batch * shape.sequence)), targets(inputs.size());
  double loss = 0;
  const auto step = [&] {
    for (auto* ids : {&inputs, &targets}) {
      for (std::int32_t& id : *ids) id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(shape.vocabulary)));
    }
    const auto feed_step = [&](int, Evaluation& evaluation) { feed(evaluation, gpt, inputs, targets); };
    loss = trainer.step(1, feed_step, kOptimizer, kClipNorm).loss;
  };
  step();
  step();
  device.clear();
  const double rate_before = matmul_rate(clock, cpu_device);
  std::vector<double> seconds, cpu;
  for (int i = 0; i < options.steps; ++i) {
    const double cpu_before = cpu_seconds();
    seconds.push_back(seconds_of(clock, step));
    cpu.push_back(cpu_seconds() - cpu_before);
  }
  const double rate = std::max(rate_before, matmul_rate(clock, cpu_device));
  if (!(loss > 0 && loss < 2 * std::log(static_cast<double>(shape.vocabulary)))) {
    throw_error(ErrorCode::kInternal, "the loss {} makes no sense", loss);
  }

  const double time = median(seconds), achieved = flops / time;
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"benchmark", "gpt_step"},
                                      {"shape", options.shape},
                                      {"device", cpu_device.description()},
                                      {"ms_per_step", time * 1e3},
                                      {"ms_per_step_best", *std::ranges::min_element(seconds) * 1e3},
                                      {"cpu_ms_per_step", median(cpu) * 1e3},
                                      {"tokens_per_second", tokens / time},
                                      {"gflops", achieved * 1e-9},
                                      {"matmul_gflops", rate * 1e-9},
                                      {"share_of_matmul_rate", achieved / rate}}
                           .dump());
  } else {
    fmt::print(
        "{} on {}: {:.1f} ms/step (median of {}), {:.0f} tokens/s, {:.1f} GFLOP/s = {:.2f} of the matmul "
        "rate {:.1f}\n",
        options.shape, cpu_device.description(), time * 1e3, options.steps, tokens / time, achieved * 1e-9, achieved / rate,
        rate * 1e-9);
    fmt::print("memory: {:.1f} MiB persistent, {:.1f} MiB temporary\n",
               static_cast<double>(trainer.evaluation().persistent_bytes()) / 0x1p20,
               static_cast<double>(trainer.evaluation().temporary_bytes()) / 0x1p20);
  }
  if (options.per_op) device.print(options.steps);
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::Options options;
  CLI::App app{"Times a GPT training step on one CPU device"};
  app.add_option("--shape", options.shape)->check(CLI::IsMember(weft::kShapes));
  app.add_option("--batch", options.batch, "sequences a step, instead of the shape's")->check(CLI::Range(1, 4096));
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000));
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
  app.add_option("--dump", options.dump, "write initial values, and tokens for --steps steps, into this folder")
      ->type_name("DIR");
  app.add_option("--losses", options.losses, "train on what --dump has written, and print the losses")->type_name("DIR");
  app.add_flag("--ops", options.per_op, "time per op");
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  try {
    if (!options.dump.empty()) {
      const auto shape = weft::shape_of(options);
      weft::test::write_fixed_data(options.dump, shape, weft::apps::gpt_graph(shape, 1).graph, weft::kSeed, options.steps);
      return 0;
    }
    if (!options.losses.empty()) return weft::train_on(options.losses, options);
    return weft::run(options);
  } catch (const weft::Error& error) {
    fmt::print(stderr, "{}\n", error.describe());
    return 1;
  }
}
