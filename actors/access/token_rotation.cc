#include "actors/access/token_rotation.h"

#include <utility>

#include "actors/access/token.h"
#include "actors/head/cluster_rows.h"
#include "actors/head/state_store.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

std::unique_ptr<StateStore> open_store(const std::filesystem::path& state_directory) {
  try {
    return std::make_unique<StateStore>(state_directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kFailedPrecondition) throw;
    throw_error(ErrorCode::kFailedPrecondition,
                "{}. If a head is running, rotate its token with: weft token rotate --head "
                "HOST:PORT",
                error.message());
  }
}

}  // namespace

TokenRotator::TokenRotator(System& system, std::filesystem::path state_directory, Nanoseconds grace)
    : system_(system), state_directory_(std::move(state_directory)), grace_(grace) {
  const std::vector<FormerToken> found = read_former_tokens(state_directory_);
  for (const FormerToken& former : found)
    system_.accept_former_token(former.token, grace_, former.members);
  if (!found.empty()) forget_later();
}

void TokenRotator::forget_later() const {
  const std::uint64_t mine = ++*count_;
  system_.run_after(grace_, [count = count_, mine, folder = state_directory_] {
    if (*count == mine) forget_former_tokens(folder);
  });
}

TokenRotation TokenRotator::rotate(std::vector<ProcessId> members) const {
  for (const ProcessRef& peer : system_.peers()) members.push_back(peer.id);
  // The file comes first: a head that dies now restarts with the new token.
  add_former_token(state_directory_, system_.token(), members);
  const Secret next = Secret::random();
  write_token(state_directory_, next);
  System::TokenReplacement replaced = system_.replace_token(next, grace_, members);
  forget_later();
  return {token_file_in(state_directory_).string(),
          static_cast<std::uint32_t>(replaced.told.size()), std::move(replaced.not_notified)};
}

std::size_t rotate_token_offline(const std::filesystem::path& state_directory) {
  const Secret former = read_token_file(token_file_in(state_directory));
  std::vector<ProcessId> members;
  if (std::filesystem::exists(state_directory / "head.db")) {
    // Holds the lock of the state, so that no head starts meanwhile.
    const std::unique_ptr<StateStore> opened = open_store(state_directory);
    const StateStore& store = *opened;
    try {
      for (const auto& [name, row] : store.rows(StateStore::Table::kHosts))
        members.push_back(decode<HostRow>(row).agent.id);
      for (const auto& [name, row] : store.rows(StateStore::Table::kOwners))
        members.push_back(decode<OwnerRow>(row).process.id);
    } catch (const Error& error) {
      throw_error(ErrorCode::kDataLoss,
                  "the head's state in {} is damaged, so the members of the cluster are unknown: "
                  "{}; the token was not changed",
                  state_directory.string(), error.message());
    }
    add_former_token(state_directory, former, members);
    write_token(state_directory, Secret::random());
    return members.size();
  }
  write_token(state_directory, Secret::random());
  return 0;
}

}  // namespace weft::actors
