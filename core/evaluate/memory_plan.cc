#include "core/evaluate/memory_plan.h"

#include <algorithm>
#include <map>

#include "core/ops/op_definition.h"

namespace weft {
namespace {

constexpr std::size_t kPage = 4096;

/// First-fit allocator of a block that grows at its end.
class Arena {
 public:
  std::size_t take(std::size_t size) {
    std::size_t at = 0;
    for (const auto& [begin, end] : taken_) {
      if (begin >= at && begin - at >= size) break;
      at = std::max(at, end);
    }
    taken_[at] = at + size;
    high_ = std::max(high_, at + size);
    return at;
  }
  void give_back(std::size_t offset) { taken_.erase(offset); }
  std::size_t high() const { return high_; }

 private:
  std::map<std::size_t, std::size_t> taken_;  ///< begin -> end
  std::size_t high_ = 0;
};

std::size_t rounded_bytes(const TensorType& type) {
  const std::size_t bytes = std::max<std::size_t>(type.bytes(), 1);
  const std::size_t unit = bytes >= kPage ? kPage : 64;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph, std::span<const ListedOp> ops,
                       const std::vector<bool>& elsewhere) {
  std::vector<std::size_t> last_use(graph.values().size(), 0);
  for (std::size_t position = 0; position < ops.size(); ++position) {
    for (const std::uint32_t input : ops[position].inputs) last_use[input] = position;
    for (const std::uint32_t output : ops[position].outputs) last_use[output] = position;
  }
  MemoryPlan plan{std::vector<std::optional<std::size_t>>(graph.values().size()), 0};
  Arena arena;
  std::vector<bool> taken_over(graph.values().size(), false);
  const auto dies_at = [&](std::uint32_t value, std::size_t position) {
    return plan.offsets[value] && last_use[value] == position && !taken_over[value];
  };
  for (std::size_t position = 0; position < ops.size(); ++position) {
    const ListedOp& listed = ops[position];
    const int in_place = definition(listed.op->kind).in_place_input;
    for (std::size_t i = 0; i < listed.outputs.size(); ++i) {
      const std::uint32_t output = listed.outputs[i];
      if (elsewhere[output]) continue;
      if (i == 0 && in_place >= 0) {
        const std::uint32_t input = listed.inputs[in_place];
        const bool once = std::count(listed.inputs.begin(), listed.inputs.end(), input) == 1;
        if (once && dies_at(input, position)) {
          plan.offsets[output] = plan.offsets[input];
          taken_over[input] = true;
          continue;
        }
      }
      plan.offsets[output] = arena.take(rounded_bytes(graph.value(ValueId(output)).type));
    }
    std::vector<std::uint32_t> dying = listed.inputs;
    dying.insert(dying.end(), listed.outputs.begin(), listed.outputs.end());
    std::sort(dying.begin(), dying.end());
    dying.erase(std::unique(dying.begin(), dying.end()), dying.end());
    for (const std::uint32_t value : dying) {
      if (!dies_at(value, position)) continue;
      arena.give_back(*plan.offsets[value]);
      taken_over[value] = true;  // released once
    }
  }
  plan.size = arena.high();
  return plan;
}

}  // namespace weft
