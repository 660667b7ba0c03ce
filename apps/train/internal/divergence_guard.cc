#include "apps/train/internal/divergence_guard.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace weft::apps {
namespace {

/// Returns "1st", "2nd", "3rd", "11th".
std::string ordinal(std::int64_t number) {
  const std::int64_t last = number % 100 / 10 == 1 ? 0 : number % 10;
  return fmt::format("{}{}", number, last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

}  // namespace

std::optional<std::string> DivergenceGuard::check(const StepMetrics& metrics,
                                                  std::optional<std::uint32_t> not_finite) {
  if (!metrics.update_skipped && std::isfinite(metrics.loss)) {
    last_finite_step_ = metrics.step;
    return std::nullopt;
  }
  const std::int64_t in_a_row = metrics.step - last_finite_step_;
  const std::string what =
      metrics.update_skipped
          ? fmt::format("its gradients are not finite (the first is that of '{}')",
                        name_of(not_finite))
          : fmt::format("its loss is {}", metrics.loss);
  if (in_a_row >= loop_.run.training.max_skipped_updates) {
    return fmt::format(
        "training has diverged: step {} is the {} in a row without a valid update: {}",
        metrics.step, ordinal(in_a_row), what);
  }
  // Reports the 1st, 2nd, 4th, 8th, ... skip, so that frequent skips do not fill the screen.
  if (metrics.update_skipped && std::has_single_bit(static_cast<std::uint64_t>(++skipped_)))
    loop_.progress.note(fmt::format("  step {}: {}; the update is skipped, the {} of this run",
                                    metrics.step, what, ordinal(skipped_)));
  return std::nullopt;
}

std::string DivergenceGuard::advice(const CheckpointStore& store) const {
  // The state after `last_finite_step_` produced the bad gradients, so only older ones are advised.
  const auto checkpoint = store.newest_up_to(last_finite_step_ - 1);
  return "Lower training.learning_rate or training.clip_norm, or look at the data of that step" +
         (checkpoint ? fmt::format("; resume from an earlier step with --set checkpoint.resume={}",
                                   checkpoint->string())
                     : std::string("; there is no earlier checkpoint, so start a new run"));
}

std::string DivergenceGuard::name_of(std::optional<std::uint32_t> parameter) const {
  if (!parameter) return "";
  const Graph& graph = loop_.engine.graph();
  return graph.value(graph.parameters()[*parameter].value).name;
}

}  // namespace weft::apps
