#include "mesh/strategy/strategy_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "mesh/strategy/internal/strategy_lines.h"

namespace weft::mesh {
namespace {

constexpr std::string_view kMagic = "weft-strategy";
constexpr std::string_view kVersion = "1";
/// Keyword in the line "splits".
constexpr std::string_view kEarlyInputGrad = "early-input-grad";

/// Reader of the header of a text. Used once.
class HeaderReader {
 public:
  HeaderReader(std::string text, std::string source) {
    result_.text = std::move(text);
    result_.source = std::move(source);
  }

  StrategyText read() {
    bool begun = false;
    for (const LocatedText& line : lines_of(result_.text)) {
      const auto parts = line_of(line);
      if (!parts) continue;
      if (!begun) check_magic(*parts);
      else header_line(*parts);
      begun = true;
    }
    const LocatedText start{{}, 1, 1};
    if (!begun)
      fail(start, fmt::format("the file is empty; a strategy begins with '{} 1'", kMagic));
    if (result_.axes.empty()) fail(start, "a line 'mesh NAME axis=size ...' is missing");
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const LocatedText& at, const std::string& message) const {
    fail_at(result_.source, at, message);
  }

  void check_magic(const StrategyLine& line) const {
    if (line.keyword.text != kMagic)
      fail(
          line.keyword,
          fmt::format("a strategy begins with '{} {}'; weft strategy show prints one to start from",
                      kMagic, kVersion));
    if (line.rest.text != kVersion)
      fail(line.rest, fmt::format("this Weft reads strategies of version {}, not '{}'", kVersion,
                                  line.rest.text));
  }

  void header_line(const StrategyLine& line) {
    const std::string_view keyword = line.keyword.text;
    if (keyword == "home" || keyword == "op") return;
    if (keyword == kMagic)
      fail(line.keyword,
           "a second strategy begins here; a file may hold only one mesh's; print it with weft "
           "strategy show --mesh NAME");
    static const std::vector<std::string> kKinds{"mesh", "gather", "splits", "home", "op"};
    if (std::ranges::find(kKinds, keyword) == kKinds.end())
      fail(line.keyword, fmt::format("unknown keyword '{}'; expected one of {}{}", keyword,
                                     fmt::join(kKinds, ", "), did_you_mean(keyword, kKinds)));
    if (!seen_.emplace(keyword).second)
      fail(line.keyword, fmt::format("a second '{}' line; only one is allowed", keyword));
    if (keyword == "mesh") read_mesh(line.rest);
    else if (keyword == "gather") read_gather(line.rest);
    else read_splits(line.rest);
  }

  /// Reads a size such as "i=2".
  std::pair<LocatedText, std::int64_t> read_size(const LocatedText& word) const {
    const std::size_t sign = word.text.find('=');
    const LocatedText number =
        word.sub(sign == std::string_view::npos ? word.text.size() : sign + 1);
    std::int64_t size = 0;
    const char* const last = number.text.data() + number.text.size();
    const auto [end, error] = std::from_chars(number.text.data(), last, size);
    if (error != std::errc() || end != last || size < 1)
      fail(word, fmt::format("expected NAME=SIZE with a size of 1 or more, found '{}'", word.text));
    return {word.sub(0, sign), size};
  }

  void read_mesh(const LocatedText& rest) {
    const std::vector<LocatedText> words = name_in_words(rest);
    if (words.size() < 2) fail(rest, "expected 'mesh NAME axis=size ...'");
    result_.mesh = words.front().text;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto [name, size] = read_size(words[i]);
      if (std::ranges::find(result_.axes, name.text, &MeshAxis::name) != result_.axes.end())
        fail(name, fmt::format("a second axis '{}'", name.text));
      result_.axes.push_back({std::string(name.text), size});
    }
  }

  void read_gather(const LocatedText& rest) {
    std::vector<std::string> names;
    for (const GatherFrequency gather :
         {GatherFrequency::kStep, GatherFrequency::kMicrobatch, GatherFrequency::kUse}) {
      names.emplace_back(to_string(gather));
      if (names.back() != rest.text) continue;
      result_.gather = gather;
      return;
    }
    fail(rest, fmt::format("expected {}, found '{}'{}", fmt::join(names, ", "), rest.text,
                           did_you_mean(rest.text, names)));
  }

  void read_splits(const LocatedText& rest) {
    FeatureSplits& splits = result_.splits;
    const std::array<std::pair<std::string, std::int64_t*>, 3> known{
        {{"residual", &splits.residual}, {"hidden", &splits.hidden}, {"rows", &splits.rows}}};
    for (const LocatedText& word : name_in_words(rest)) {
      if (word.text == kEarlyInputGrad) {
        splits.early_input_grad = true;
        continue;
      }
      const auto [name, size] = read_size(word);
      const auto found = std::ranges::find(known, name.text, [](const auto& k) { return k.first; });
      if (found == known.end()) {
        std::vector<std::string> names;
        for (const auto& [known_name, value] : known) names.push_back(known_name);
        names.emplace_back(kEarlyInputGrad);
        fail(name, fmt::format("unknown split '{}'; expected one of {}{}", name.text,
                               fmt::join(names, ", "), did_you_mean(name.text, names)));
      }
      *found->second = size;
    }
  }

  StrategyText result_;
  std::set<std::string, std::less<>> seen_;
};

std::string header_text(const DeviceMesh& mesh, GatherFrequency gather,
                        const FeatureSplits& splits) {
  std::string text = fmt::format("{} {}\nmesh {}", kMagic, kVersion, mesh.name());
  for (const MeshAxis& axis : mesh.axes()) text += fmt::format(" {}={}", axis.name, axis.size);
  text += fmt::format("\ngather {}\n", to_string(gather));
  if (splits != FeatureSplits())
    text += fmt::format("splits residual={} hidden={} rows={}{}\n", splits.residual, splits.hidden,
                        splits.rows,
                        splits.early_input_grad ? fmt::format(" {}", kEarlyInputGrad) : "");
  return text;
}

}  // namespace

StrategyText read_strategy(std::string text, std::string source) {
  return HeaderReader(std::move(text), std::move(source)).read();
}

std::string write_strategy(const MeshGraph& part, const ShardingStrategy& strategy,
                           const FeatureSplits& splits) {
  const Graph& graph = part.graph;
  const std::vector<std::string> names = names_of_values(graph);
  std::string text = header_text(part.mesh, strategy.gather, splits) + "\n";
  const auto add_home = [&](ValueId value, const Spec& spec) {
    text += fmt::format("home {} {}\n", names[value.value()], to_string(spec, part.mesh));
  };
  std::set<ValueId> parameters;
  for (const Parameter& parameter : graph.parameters()) {
    parameters.insert(parameter.value);
    const auto home = strategy.storage_specs.find(parameter.value);
    if (home != strategy.storage_specs.end()) add_home(parameter.value, home->second);
  }
  text += "\n";
  for (const auto& [value, spec] : strategy.storage_specs)
    if (!parameters.contains(value)) add_home(value, spec);
  text += "\n";
  for (const auto& [id, sharding] : strategy.ops) {
    const Node& node = graph.node(id);
    const auto forward = node.forward ? strategy.ops.find(*node.forward) : strategy.ops.end();
    if (sharding ==
        default_sharding(graph, node, forward == strategy.ops.end() ? nullptr : &forward->second))
      continue;
    text += fmt::format("op {} {}\n", names[node.outputs.front().value()],
                        specs_text(factor_signature(graph, node), sharding, part.mesh));
  }
  return text;
}

}  // namespace weft::mesh
