#include "actors/launch/role_arguments.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::actors {

RoleArguments::RoleArguments(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& flags) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--"))
      throw_error(ErrorCode::kInvalidArgument, "unexpected argument '{}'", argument);
    const auto equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (equals != std::string::npos) values_[name].push_back(argument.substr(equals + 1));
    else if (std::find(flags.begin(), flags.end(), name) != flags.end())
      values_[name].push_back("");
    else if (i + 1 < arguments.size()) values_[name].push_back(arguments[++i]);
    else throw_error(ErrorCode::kInvalidArgument, "--{} needs a value", name);
  }
}

void RoleArguments::check_known(const std::vector<std::string>& names) const {
  for (const auto& [name, values] : values_) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw_error(ErrorCode::kInvalidArgument, "unknown option --{}; see --help{}", name,
                  did_you_mean(name, names));
  }
}

const std::string& RoleArguments::get(const std::string& name) const {
  const std::vector<std::string>* values = find(name);
  if (values == nullptr) throw_error(ErrorCode::kInvalidArgument, "--{} is missing", name);
  return values->back();
}

std::string RoleArguments::get_or(const std::string& name, const std::string& otherwise) const {
  return has(name) ? get(name) : otherwise;
}

std::uint64_t RoleArguments::number(const std::string& name) const {
  const std::string& text = get(name);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw_error(ErrorCode::kInvalidArgument, "--{} {}: expected a whole number", name, text);
  return value;
}

std::vector<std::string> RoleArguments::all(const std::string& name) const {
  const std::vector<std::string>* values = find(name);
  return values == nullptr ? std::vector<std::string>() : *values;
}

RoleArguments RoleArguments::unread() const {
  RoleArguments rest = *this;
  for (const std::string& name : read_) rest.values_.erase(name);
  return rest;
}

const std::vector<std::string>* RoleArguments::find(const std::string& name) const {
  read_.insert(name);
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::string> role_of(const std::vector<std::string>& arguments) {
  constexpr std::string_view kRole = "--weft-role=";
  if (arguments.empty() || !arguments[0].starts_with(kRole)) return std::nullopt;
  return arguments[0].substr(kRole.size());
}

}  // namespace weft::actors
