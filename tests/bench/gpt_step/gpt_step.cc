// gpt_step: how long one training step of a GPT takes on one CPU device: forward, backward, clipping to a
// global norm, AdamW.
//   gpt_step [--shape large|small|tiny] [--steps N] [--threads N] [--ops] [--json]
// large is (layers, width, heads, sequence, batch, vocabulary) = (6, 384, 6, 256, 8, 4096), small is (4, 128,
// 4, 128, 16, 2048).
#include <fmt/format.h>

#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/gpt_model/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/device_cpu/cpu_device.h"
#include "core/evaluate/one_device_trainer.h"
#include "core/ops/op_definition.h"
#include "tests/bench/gpt_step/timed_device.h"

namespace weft {
namespace {

const std::map<std::string, apps::GptShape> kShapes{
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

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
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
  bool per_op = false;
  bool json = false;
};

int run(const Options& options) {
  const SteadyClock clock;
  const apps::GptShape& shape = kShapes.at(options.shape);
  const double tokens = static_cast<double>(shape.batch * shape.sequence);
  const apps::GptGraph gpt = apps::gpt_graph(shape, 1 / tokens);
  const TrainingGraph training = differentiate(gpt.graph, gpt.loss);
  const double flops = matmul_flops(training.graph);
  CpuDevice cpu_device({options.threads, std::nullopt});
  test::TimedDevice device(cpu_device, clock);
  OneDeviceTrainer trainer(device, training, 1);
  PhiloxStream random(1);
  const auto feed = [&](int, Evaluation& evaluation) {
    for (const ValueId input : {gpt.tokens, gpt.targets}) {
      for (std::int32_t& id : evaluation.data<std::int32_t>(input)) {
        id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(shape.vocabulary)));
      }
    }
  };
  const AdamW optimizer{.learning_rate = 3e-4, .weight_decay = 0.1};
  double loss = 0;
  const auto step = [&] { loss = trainer.step(1, feed, optimizer, 1.0).loss; };
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
  app.add_option("--shape", options.shape)->check(CLI::IsMember({"large", "small", "tiny"}));
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000));
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
  app.add_flag("--ops", options.per_op, "time per op");
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  try {
    return weft::run(options);
  } catch (const weft::Error& error) {
    fmt::print(stderr, "{}\n", error.describe());
    return 1;
  }
}
