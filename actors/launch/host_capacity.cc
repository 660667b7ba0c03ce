#include "actors/launch/host_capacity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/name.h"

namespace weft::actors {
namespace {

/// Limit far above any host.
constexpr double kMost = 1e9;

std::optional<double> parse_number(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Splits "zone=a". Throws Error(kInvalidArgument) if there is no '='.
std::pair<std::string, std::string> split(const std::string& option, const std::string& text,
                                          const std::string& expected) {
  const auto equals = text.find('=');
  if (equals == std::string::npos)
    throw_error(ErrorCode::kInvalidArgument, "--{} {}: expected {}", option, text, expected);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void check(const std::string& option, const std::string& text, const std::string& problem) {
  if (!problem.empty())
    throw_error(ErrorCode::kInvalidArgument, "--{} {}: {}", option, text, problem);
}

}  // namespace

std::string label_problem(const std::string& key, const std::string& value) {
  if (!is_name(key)) return invalid_name_message("the key of a label", key);
  if (!is_name(value)) return invalid_name_message("the value of label " + key, value);
  return "";
}

std::string resource_problem(const std::string& name, double number) {
  if (!is_name(name)) return invalid_name_message("the name of a resource", name);
  if (name == "devices" || name == "cpus" || name == "memory")
    return fmt::format(
        "'{0}' is a resource of each host; give it as --{0}, or in a run file as the "
        "key {0} of the host",
        name);
  if (!std::isfinite(number) || number < 0.001 || number > kMost)
    return fmt::format("expected a number of '{}' from 0.001 to {:.0f}", name, kMost);
  return "";
}

void add_label(HostCapacity& capacity, const std::string& text) {
  const auto [key, value] = split("label", text, "KEY=VALUE, such as zone=a");
  check("label", text, label_problem(key, value));
  const auto [found, is_new] = capacity.labels.emplace(key, value);
  if (!is_new && found->second != value)
    throw_error(ErrorCode::kInvalidArgument, "--label {}: the label {} is {} already", text, key,
                found->second);
}

void add_resource(HostCapacity& capacity, const std::string& text) {
  const auto [name, number] = split("resource", text, "NAME=NUMBER, such as licence=2");
  const auto parsed = parse_number(number);
  if (!parsed)
    throw_error(ErrorCode::kInvalidArgument, "--resource {}: expected NAME=NUMBER, such as {}=2",
                text, name);
  check("resource", text, resource_problem(name, *parsed));
  if (!capacity.custom.emplace(name, *parsed).second)
    throw_error(ErrorCode::kInvalidArgument, "--resource {}: {} is given twice", text, name);
}

std::vector<std::string> to_arguments(const HostCapacity& capacity) {
  std::vector<std::string> arguments;
  if (capacity.cpus > 0)
    arguments.insert(arguments.end(), {"--cpus", fmt::format("{}", capacity.cpus)});
  if (capacity.memory > 0)
    arguments.insert(arguments.end(), {"--memory", std::to_string(capacity.memory)});
  for (const auto& [name, number] : capacity.custom)
    arguments.insert(arguments.end(), {"--resource", fmt::format("{}={}", name, number)});
  for (const auto& [key, value] : capacity.labels)
    arguments.insert(arguments.end(), {"--label", fmt::format("{}={}", key, value)});
  return arguments;
}

HostCapacity host_capacity_of(const RoleArguments& arguments) {
  HostCapacity capacity;
  if (arguments.has("cpus")) {
    const auto cpus = parse_number(arguments.get("cpus"));
    if (!cpus || !std::isfinite(*cpus) || *cpus < 0.001 || *cpus > kMost)
      throw_error(ErrorCode::kInvalidArgument, "--cpus {}: expected a number from 0.001 to {:.0f}",
                  arguments.get("cpus"), kMost);
    capacity.cpus = *cpus;
  }
  if (arguments.has("memory")) capacity.memory = arguments.number("memory");
  for (const std::string& text : arguments.all("resource")) add_resource(capacity, text);
  for (const std::string& text : arguments.all("label")) add_label(capacity, text);
  return capacity;
}

}  // namespace weft::actors
