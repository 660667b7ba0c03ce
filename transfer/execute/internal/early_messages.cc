#include "transfer/execute/internal/early_messages.h"

namespace weft::transfer {

namespace {
// Number of remembered transfers that peers have announced and this device has not started. Those
// of differing plans never start here.
constexpr std::size_t kMaxAnnounced = 4096;
}  // namespace

bool EarlyMessages::keep(const Message& message, const ChunkHeader& header) {
  std::size_t& count = num_from_[message.sender];
  if (count == kMaxPerSender) {
    over_limit_.insert(message.sender);
    return false;
  }
  ++count;
  messages_[header.transfer()].push_back({message.id, message.sender, header, message.bytes});
  return true;
}

std::vector<EarlyMessage> EarlyMessages::take(const TransferId& id) {
  const auto found = messages_.find(id);
  if (found == messages_.end()) return {};
  std::vector<EarlyMessage> taken = std::move(found->second);
  messages_.erase(found);
  for (const EarlyMessage& each : taken) --num_from_[each.sender];
  return taken;
}

std::vector<TransferId> EarlyMessages::transfers() const {
  std::vector<TransferId> ids;
  ids.reserve(messages_.size());
  for (const auto& [id, messages] : messages_) ids.push_back(id);
  return ids;
}

std::set<DeviceId> EarlyMessages::senders_of(const TransferId& id) const {
  std::set<DeviceId> senders;
  if (const auto found = messages_.find(id); found != messages_.end())
    for (const EarlyMessage& each : found->second) senders.insert(each.sender);
  return senders;
}

void EarlyMessages::announce(const TransferId& id) {
  if (announced_.size() == kMaxAnnounced) announced_.clear();
  announced_.insert(id);
}

}  // namespace weft::transfer
