#include "transfer/execute/internal/operation_table.h"

#include <utility>

#include "core/base/check.h"

namespace weft::transfer {

Token OperationTable::add(WireOperation operation) {
  if (free_.empty()) {
    operations_.push_back(std::move(operation));
    return operations_.size() - 1;
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  operations_[index] = std::move(operation);
  return index;
}

WireOperation OperationTable::take(Token token) {
  WEFT_CHECK(token < operations_.size() && operations_[token].kind != WireOperation::Kind::kFree,
             "token {}", token);
  WireOperation operation = std::move(operations_[token]);
  operations_[token].kind = WireOperation::Kind::kFree;
  free_.push_back(token);
  return operation;
}

std::map<DeviceId, std::size_t> OperationTable::count_by_peer() const {
  std::map<DeviceId, std::size_t> counts;
  for (const WireOperation& operation : operations_)
    if (operation.kind != WireOperation::Kind::kFree) ++counts[operation.peer];
  return counts;
}

}  // namespace weft::transfer
