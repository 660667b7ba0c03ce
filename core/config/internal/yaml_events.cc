#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "core/base/error.h"
#include "core/config/internal/config_tree.h"

namespace weft::internal {
namespace {

/// Limit on the values of a document; more are a mistake or an attack (nested aliases).
constexpr int kMaxValues = 100'000;

/// Builds the tree from the parser's events, as only these reveal duplicate keys and recursive
/// aliases.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string name, std::string fixed_where)
      : name_(std::move(name)), fixed_where_(std::move(fixed_where)) {}

  std::unique_ptr<ConfigValue> take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    place(mark, scalar(mark, ConfigNode::Kind::kNull, ""), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_tag(mark, tag);
    const bool quoted = tag == "!";
    const bool null = !quoted && (text.empty() || text == "~" || text == "null" || text == "Null" ||
                                  text == "NULL");
    auto value = scalar(mark, null ? ConfigNode::Kind::kNull : ConfigNode::Kind::kScalar, text);
    value->quoted = quoted;
    place(mark, std::move(value), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto finished = anchors_.find(anchor);
    if (finished == anchors_.end())
      fail(mark, "this alias refers to the value that contains it; write the value out instead");
    place(mark, copy(mark, *finished->second), YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open_.push_back({scalar(mark, ConfigNode::Kind::kList, ""), anchor, mark, std::nullopt});
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open_.push_back({scalar(mark, ConfigNode::Kind::kMap, ""), anchor, mark, std::nullopt});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct MapKey {
    std::string text;
    std::string where;
    int order;
  };
  struct Open {
    std::unique_ptr<ConfigValue> value;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    std::optional<MapKey> key;  ///< key of a map whose value is the next event
  };

  std::string where(const YAML::Mark& mark) const {
    return fixed_where_.empty() ? fmt::format("{}:{}:{}", name_, mark.line + 1, mark.column + 1)
                                : fixed_where_;
  }
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& text) const {
    throw Error(ErrorCode::kInvalidConfig, fmt::format("{}: {}", where(mark), text));
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      fail(mark, fmt::format("tag '{}' is not supported; remove it", tag));
  }

  std::unique_ptr<ConfigValue> scalar(const YAML::Mark& mark, ConfigNode::Kind kind,
                                      const std::string& text) {
    if (++count_ > kMaxValues)
      fail(mark, fmt::format("more than {} values in one document", kMaxValues));
    auto value = std::make_unique<ConfigValue>();
    value->kind = kind;
    value->text = text;
    value->where = where(mark);
    value->order = mark.pos;
    return value;
  }

  std::unique_ptr<ConfigValue> copy(const YAML::Mark& mark, const ConfigValue& from) {
    auto value = scalar(mark, from.kind, from.text);
    value->quoted = from.quoted;
    value->where = from.where;
    value->order = from.order;
    for (const auto& member : from.members)
      value->members.push_back(
          {member.key, member.where, member.order, false, false, copy(mark, *member.value)});
    for (const auto& element : from.elements) value->elements.push_back(copy(mark, *element));
    return value;
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    place(done.mark, std::move(done.value), done.anchor);
  }

  void place(const YAML::Mark& mark, std::unique_ptr<ConfigValue> value, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = copy(mark, *value);
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.value->kind == ConfigNode::Kind::kList) {
      parent.value->elements.push_back(std::move(value));
    } else if (parent.key) {
      parent.value->members.push_back(
          {parent.key->text, parent.key->where, parent.key->order, false, false, std::move(value)});
      parent.key.reset();
    } else {
      if (value->kind != ConfigNode::Kind::kScalar) fail(mark, "a key must be a plain word");
      if (const auto* first = parent.value->member(value->text))
        fail(mark, fmt::format("duplicate key '{}'; it is already defined at {}", value->text,
                               first->where));
      parent.key = MapKey{value->text, value->where, value->order};
    }
  }

  const std::string name_;
  const std::string fixed_where_;
  std::unique_ptr<ConfigValue> root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::unique_ptr<ConfigValue>> anchors_;
  int count_ = 0;
};

/// Returns true if the line, counted from 0, or the line before it contains a tab.
bool has_tab(const std::string& text, int line) {
  std::istringstream lines(text);
  int number = 0;
  for (std::string each; std::getline(lines, each); ++number)
    if ((number == line || number + 1 == line) && each.find('\t') != std::string::npos) return true;
  return false;
}

}  // namespace

std::unique_ptr<ConfigValue> parse_yaml(const std::string& text, const std::string& name,
                                        const std::string& fixed_where) {
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    TreeBuilder builder(name, fixed_where);
    parser.HandleNextDocument(builder);
    auto root = builder.take_root();
    TreeBuilder rest(name, fixed_where);
    if (parser.HandleNextDocument(rest))
      throw Error(ErrorCode::kInvalidConfig,
                  fmt::format("{}: there is a second document ('---'); only one is allowed",
                              fixed_where.empty() ? name : fixed_where));
    return root;
  } catch (const YAML::Exception& error) {
    const std::string place =
        fixed_where.empty()
            ? fmt::format("{}:{}:{}", name, error.mark.line + 1, error.mark.column + 1)
            : fixed_where;
    throw Error(ErrorCode::kInvalidConfig,
                fmt::format("{}: not valid YAML: {}{}", place, error.msg,
                            has_tab(text, error.mark.line)
                                ? "; there is a tab in this line: YAML is indented with spaces"
                                : ""));
  }
}

}  // namespace weft::internal
