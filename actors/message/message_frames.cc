#include "actors/message/message_frames.h"

#include <algorithm>
#include <cstring>

#include "core/base/units.h"

namespace weft::actors {

namespace {
constexpr std::uint8_t kMoreFollows = 1;
}

void append_message(Connection& connection, MessageKind kind, MessageBytes bytes) {
  const auto number = static_cast<std::uint8_t>(kind);
  if (bytes.size() > kMaxFrameBody) connection.make_room(bytes.size());
  while (bytes.size() > kMaxFrameBody) {
    const auto head = bytes.head.first(std::min<std::size_t>(bytes.head.size(), kMaxFrameBody));
    const auto payload = bytes.payload.first(kMaxFrameBody - head.size());
    connection.append(number, kMoreFollows, head, payload);
    bytes = {bytes.head.subspan(head.size()), bytes.payload.subspan(payload.size())};
  }
  connection.append(number, 0, bytes.head, bytes.payload);
}

std::optional<MessageAssembler::AssembledMessage> MessageAssembler::add(
    const FrameHeader& header, std::span<const std::byte> body) {
  const bool more = (header.flags & kMoreFollows) != 0;
  if (!open_ && !more) return AssembledMessage{static_cast<MessageKind>(header.kind), body};
  if (!open_) {
    open_ = true;
    kind_ = header.kind;
    bytes_ = 0;
  }
  if (header.kind != kind_)
    throw_error(ErrorCode::kDataLoss, "a {} frame inside a {} message of several frames",
                to_string(static_cast<MessageKind>(header.kind)),
                to_string(static_cast<MessageKind>(kind_)));
  // All frames but the last are full, so that every part starts at a multiple of 8.
  if (more && body.size() != kMaxFrameBody)
    throw_error(ErrorCode::kDataLoss, "a part of a message has {} bytes instead of {}", body.size(),
                kMaxFrameBody);
  // The payload's limit plus 4 KiB for the envelope.
  if (bytes_ + body.size() > kMaxMessageBytes + 4096)
    throw_error(ErrorCode::kDataLoss, "a message is longer than {}",
                format_bytes(kMaxMessageBytes));
  words_.resize((bytes_ + body.size() + 7) / 8);
  std::memcpy(reinterpret_cast<std::byte*>(words_.data()) + bytes_, body.data(), body.size());
  bytes_ += body.size();
  if (more) return std::nullopt;
  open_ = false;
  return AssembledMessage{static_cast<MessageKind>(kind_),
                          std::span(reinterpret_cast<const std::byte*>(words_.data()), bytes_)};
}

}  // namespace weft::actors
