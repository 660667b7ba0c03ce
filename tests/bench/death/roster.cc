#include "tests/bench/death/roster.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

std::vector<std::string> name_in_words(pid_t pid) {
  std::vector<std::string> words;
  std::istringstream text(read_file(fmt::format("/proc/{}/cmdline", pid)));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

/// Returns "worker0" for {"--name", "worker0"} and for {"--name=worker0"}.
std::string value_of(const std::vector<std::string>& words, const std::string& name) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == name && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(name + "=")) return words[i].substr(name.size() + 1);
  }
  return "";
}

std::optional<Roster::Member> member_of(pid_t pid, const std::vector<std::string>& words) {
  if (words.size() < 2) return std::nullopt;
  const std::string program = words[0].substr(words[0].rfind('/') + 1);
  const std::string role = value_of(words, "--weft-role");
  const bool by_hand = program == "weft" && role.empty();
  if (role == "device")
    return Roster::Member{pid, Roster::Role::kDevice, "", value_of(words, "--label")};
  if (role == "driver") return Roster::Member{pid, Roster::Role::kDriver, "", ""};
  if (role == "head" || (by_hand && words[1] == "head"))
    return Roster::Member{pid, Roster::Role::kHead, "", ""};
  if (role == "agent" || (by_hand && words[1] == "join"))
    return Roster::Member{pid, Roster::Role::kAgent, value_of(words, "--name"), ""};
  return std::nullopt;
}

bool can_run(pid_t pid) {
  const auto stat = actors::read_proc_stat(pid);
  return stat && !stat->exiting;
}

}  // namespace

void Roster::look() {
  living_.clear();
  for (const pid_t pid : processes_.left()) {
    auto member = member_of(pid, name_in_words(pid));
    if (!member) continue;
    const auto stat = actors::read_proc_stat(pid);
    if (!stat || stat->exiting) continue;
    // A forked child that has not called exec yet looks like its parent.
    if (const auto parent = known_.find(stat->parent);
        parent != known_.end() && member->role == Roster::Role::kAgent)
      continue;
    if (member->role == Roster::Role::kDevice) {
      if (const auto before = known_.find(pid); before != known_.end())
        member->host = before->second.host;
      else if (const auto parent = known_.find(stat->parent); parent != known_.end())
        member->host = parent->second.host;
    }
    known_[pid] = *member;
    living_.push_back(*member);
  }
  const auto devices = living(Roster::Role::kDevice);
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b)
      // Check again, as the first process may have ended before the second began.
      if (!devices[a].host.empty() && devices[a].host == devices[b].host &&
          can_run(devices[a].pid) && can_run(devices[b].pid))
        twofold_.push_back(fmt::format("{}: {} (pid {}) beside {} (pid {})", devices[a].host,
                                       devices[a].label, devices[a].pid, devices[b].label,
                                       devices[b].pid));
}

std::vector<Roster::Member> Roster::living(Role role) const {
  std::vector<Member> found;
  std::ranges::copy_if(living_, std::back_inserter(found),
                       [role](const Member& member) { return member.role == role; });
  return found;
}

const char* name_of(Roster::Role role) {
  switch (role) {
    case Roster::Role::kHead: return "head";
    case Roster::Role::kAgent: return "agent";
    case Roster::Role::kDevice: return "device";
    case Roster::Role::kDriver: return "driver";
  }
  return "?";
}

Roster::Role role_named(const std::string& name) {
  using Role = Roster::Role;
  for (const Role role : {Role::kHead, Role::kAgent, Role::kDevice, Role::kDriver})
    if (name == name_of(role)) return role;
  throw std::runtime_error("no role is called '" + name + "'");
}

}  // namespace weft::test
