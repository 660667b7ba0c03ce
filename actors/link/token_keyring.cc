#include "actors/link/token_keyring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/sha256.h"

namespace weft::actors {

std::uint64_t token_id(const Secret& token) {
  const Mac mac = hmac_sha256(token, "weft token id", {});
  std::uint64_t id = 0;
  std::memcpy(&id, mac.data(), sizeof id);
  return id == 0 ? 1 : id;
}

bool TokenKeyring::knows(const Secret& token) const {
  const std::uint64_t id = token_id(token);
  return id == token_id(current_) || std::ranges::any_of(former_, [id](const Former& former) {
           return token_id(former.token) == id;
         });
}

void TokenKeyring::replace(const Secret& next, std::uint64_t generation, TimePoint now,
                           TimePoint until, std::optional<std::set<ProcessId>> members) {
  std::erase_if(former_, [now](const Former& former) { return former.until <= now; });
  former_.push_back({std::exchange(current_, next), until, std::move(members)});
  generation_ = generation;
}

std::vector<Secret> TokenKeyring::usable(TimePoint now) const {
  std::vector<Secret> tokens = {current_};
  for (const Former& former : former_)
    if (now < former.until) tokens.push_back(former.token);
  return tokens;
}

bool TokenKeyring::admits(std::uint64_t id, ProcessId process, TimePoint now) const {
  if (id == token_id(current_)) return true;
  return std::ranges::any_of(former_, [&](const Former& former) {
    return token_id(former.token) == id && now < former.until &&
           (!former.members || former.members->contains(process));
  });
}

}  // namespace weft::actors
