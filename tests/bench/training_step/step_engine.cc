#include "tests/bench/training_step/step_engine.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/autodiff/differentiate.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "core/evaluate/one_device_trainer.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/bench/training_step/step_plan.h"

namespace weft::test {
namespace {

constexpr double kClipNorm = 1;
const AdamW kOptimizer{.learning_rate = 3e-4, .weight_decay = 0.1};

/// Engine "evaluate".
class EvaluationEngine final : public StepEngine {
 public:
  EvaluationEngine(const StepModel& model, Device& device)
      : inputs_(model.inputs),
        trainer_(device, differentiate(model.graph, model.loss), kStepSeed) {}

  double step(const StepContents& contents) override {
    const auto feed = [&](int, Evaluation& evaluation) {
      for (std::size_t i = 0; i < contents.size(); ++i) evaluation.write(inputs_[i], contents[i]);
    };
    return trainer_.step(1, feed, kOptimizer, kClipNorm).loss;
  }
  StepMemory memory() override {
    const std::size_t temporary = trainer_.evaluation().temporary_bytes();
    return {trainer_.device_bytes() - temporary, temporary};
  }

 private:
  const std::vector<ValueId> inputs_;
  OneDeviceTrainer trainer_;
};

/// Source of the contents that the current step got. Owner's thread only.
class CurrentContents final : public mesh::BatchSource {
 public:
  explicit CurrentContents(const StepModel& model) {
    for (const ValueId input : model.inputs) names_.push_back(model.graph.value(input).name);
  }
  /// `contents` must outlive the step.
  void use(const StepContents& contents) { contents_ = &contents; }

  void read(std::string_view input, mesh::Split /*split*/, std::uint64_t /*step*/,
            int /*microbatch*/, int /*microbatches*/, const Region& region,
            std::span<std::byte> out) override {
    const std::size_t index = std::ranges::find(names_, input) - names_.begin();
    WEFT_CHECK(index < names_.size() && (*contents_)[index].size() == out.size(),
               "the device reads {} of '{}'", to_string(region), input);
    std::ranges::copy((*contents_)[index], out.begin());
  }

 private:
  std::vector<std::string> names_;
  const StepContents* contents_ = nullptr;
};

/// Engine "runtime".
class RuntimeEngine final : public StepEngine {
 public:
  RuntimeEngine(const StepModel& model, Device& device)
      : plan_(step_plan(model)),
        contents_(model),
        training_(plan_, contents_, kStepSeed, {}, &device) {}

  double step(const StepContents& contents) override {
    contents_.use(contents);
    mesh::StepRequest request;
    request.program = mesh::kTrainProgram;
    request.step = steps_++;
    request.optimizer = {.learning_rate = kOptimizer.learning_rate,
                         .beta1 = kOptimizer.beta1,
                         .beta2 = kOptimizer.beta2,
                         .epsilon = kOptimizer.epsilon,
                         .weight_decay = kOptimizer.weight_decay,
                         .clip_norm = kClipNorm,
                         .number = static_cast<std::int64_t>(steps_)};
    return training_.run(std::move(request)).loss;
  }
  StepMemory memory() override {
    const transfer::DeviceId device(0);
    const std::size_t temporary = mesh::arena_bytes(plan_, device);
    return {mesh::device_memory(plan_, device) - temporary, temporary};
  }

 private:
  const mesh::TrainingPlan plan_;
  CurrentContents contents_;
  mesh::InProcessTraining training_;
  std::uint64_t steps_ = 0;
};

}  // namespace

std::vector<std::string> step_engine_names() { return {"evaluate", "runtime"}; }

std::unique_ptr<StepEngine> make_step_engine(const std::string& name, const StepModel& model,
                                             Device& device) {
  if (name == "evaluate") return std::make_unique<EvaluationEngine>(model, device);
  if (name == "runtime") return std::make_unique<RuntimeEngine>(model, device);
  throw_error(ErrorCode::kInvalidArgument, "there is no engine '{}'; there are {}", name,
              fmt::join(step_engine_names(), ", "));
}

}  // namespace weft::test
