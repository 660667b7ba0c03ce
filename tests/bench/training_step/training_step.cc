// Times one training step of a model on one device: forward, backward, clipping to a global norm,
// AdamW.
//
//   training_step [--model large|small|tiny|124m|u-small|...] [--device cpu|cuda] [--bf16]
//                 [--engine evaluate|runtime] [--nondeterministic] [--steps N] [--threads N]
//                 [--json]
//   training_step --dump DIR   writes initial values and the inputs of --steps steps; --losses
//                              prints the losses of those steps, to compare with
//                              tests/bench/peers/pytorch_step.py --weights DIR.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/autodiff/differentiate.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/statistics.h"
#include "core/ops/op_definition.h"
#include "tests/bench/training_step/fixed_data.h"
#include "tests/bench/training_step/step_device.h"
#include "tests/bench/training_step/step_engine.h"
#include "tests/bench/training_step/step_model.h"

namespace weft {
namespace {

double seconds_of(const Clock& clock, const auto& work) {
  const TimePoint begin = clock.now();
  work();
  return std::chrono::duration<double>(clock.now() - begin).count();
}

/// Returns this process's CPU time in seconds, which measures a step even on a shared machine.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

/// Returns the floating-point operations of a step's matrix products, convolutions and attention.
/// Attention counts its causal half only, as other benchmarks do.
double matmul_flops(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes()) {
    const auto name = to_string(node.op.kind);
    if (name.starts_with("linear") || name.starts_with("convolution") ||
        name.find("attention") != name.npos)
      sum += cost(graph, node).flops;
  }
  return sum;
}

struct Options {
  std::string model = "small";
  std::string engine = "evaluate";
  test::StepDevice device;
  DType precision = DType::kF32;
  int steps = 10;
  std::int64_t batch = 0;
  std::string dump;
  bool losses = false;
  bool json = false;
};

/// Returns the part of a record that says what was run.
nlohmann::json description(const Options& options, const Device& device) {
  return {{"benchmark", "training_step"},
          {"model", options.model},
          {"engine", options.engine},
          {"device", device.description()},
          {"precision", to_string(options.precision)},
          {"deterministic", options.device.deterministic}};
}

int print_losses(const test::StepModel& model, const Options& options) {
  const auto device = test::open_device(options.device);
  const auto engine = test::make_step_engine(options.engine, model, *device);
  std::vector<double> losses;
  for (int step = 0; step < options.steps; ++step)
    losses.push_back(engine->step(test::step_inputs(model, test::kStepSeed, step)));
  nlohmann::json record = description(options, *device);
  record.update({{"losses", losses}, {"notes", device->notes()}});
  fmt::print("{}\n", record.dump());
  return 0;
}

int time_steps(const test::StepModel& model, const Options& options) {
  const SteadyClock clock;
  const double flops = matmul_flops(differentiate(model.graph, model.loss).graph);
  const auto device = test::open_device(options.device);
  const auto engine = test::make_step_engine(options.engine, model, *device);
  const auto contents = test::step_inputs(model, test::kStepSeed, 0);
  double loss = 0;
  const auto step = [&] { loss = engine->step(contents); };
  for (int i = 0; i < (device->is_host_memory() ? 2 : 5); ++i) step();
  double rate = test::matmul_rate(clock, *device, options.precision);
  std::vector<double> seconds, cpu;
  for (int i = 0; i < options.steps; ++i) {
    const double cpu_before = cpu_seconds();
    seconds.push_back(seconds_of(clock, step));
    cpu.push_back(cpu_seconds() - cpu_before);
  }
  // Other programs may have slowed down the CPU's first measurement.
  if (device->is_host_memory())
    rate = std::max(rate, test::matmul_rate(clock, *device, options.precision));
  if (!(loss > 0 && loss < model.largest_loss))
    throw_error(ErrorCode::kInternal, "the loss {} makes no sense", loss);

  const double time = median(seconds), achieved = flops / time;
  const test::StepMemory memory = engine->memory();
  if (options.json) {
    nlohmann::json record = description(options, *device);
    record.update({{"ms_per_step", time * 1e3},
                   {"ms_per_step_best", *std::ranges::min_element(seconds) * 1e3},
                   {"cpu_ms_per_step", median(cpu) * 1e3},
                   {"device_bytes", memory.persistent + memory.temporary},
                   {"items_per_second", model.items / time},
                   {"gflops", achieved * 1e-9},
                   {"matmul_gflops", rate * 1e-9},
                   {"share_of_matmul_rate", achieved / rate},
                   {"notes", device->notes()}});
    fmt::print("{}\n", record.dump());
  } else {
    fmt::print(
        "{}, {}, {}{}, on {}: {:.1f} ms/step (median of {}), {:.0f} {}/s, {:.1f} GFLOP/s = {:.2f} "
        "of the matmul rate {:.1f}\n",
        model.name, to_string(options.precision), options.engine,
        options.device.deterministic ? "" : ", nondeterministic", device->description(), time * 1e3,
        options.steps, model.items / time, model.item, achieved * 1e-9, achieved / rate,
        rate * 1e-9);
    fmt::print("memory: {:.1f} MiB persistent, {:.1f} MiB temporary\n",
               static_cast<double>(memory.persistent) / 0x1p20,
               static_cast<double>(memory.temporary) / 0x1p20);
    for (const std::string& note : device->notes()) fmt::print("note: {}\n", note);
  }
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;
  Options options;
  bool bf16 = false, nondeterministic = false;
  CLI::App app{"Times a training step on one device"};
  app.add_option("--model", options.model)
      ->check(CLI::IsMember(test::step_model_names()))
      ->capture_default_str();
  app.add_option("--device", options.device.kind)
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--engine", options.engine,
                 "evaluate: the graph, op by op; runtime: the compiled program of a run")
      ->check(CLI::IsMember(test::step_engine_names()))
      ->capture_default_str();
  app.add_flag("--nondeterministic", nondeterministic,
               "let a GPU use faster ops that may give other bits in each run");
  app.add_flag("--bf16", bf16, "bf16 with float32 master values, instead of float32");
  app.add_option("--batch", options.batch,
                 "sequences or pictures a step, instead of the model's own")
      ->check(CLI::Range(1, 4096));
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--threads", options.device.threads)
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--dump", options.dump,
                 "write initial values, and inputs for --steps steps, into this folder")
      ->type_name("DIR");
  app.add_flag("--losses", options.losses, "train on those, and print the losses");
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  if (bf16) options.precision = DType::kBF16;
  options.device.deterministic = !nondeterministic;
  try {
    const test::StepModel model =
        test::make_step_model(options.model, options.batch, options.precision);
    if (!options.dump.empty())
      test::write_fixed_data(options.dump, model, test::kStepSeed, options.steps);
    if (options.losses) return print_losses(model, options);
    return options.dump.empty() ? time_steps(model, options) : 0;
  } catch (const Error& error) {
    fmt::print(stderr, "training_step: {}\n", error.describe());
    return 1;
  }
}
