#pragma once

#include "core/graph/graph.h"

namespace weft::mesh {

/// A model whose layers over the vocabulary are blocks of their own, so that a mesh of their own
/// can have them (Vocabulary Parallelism, arXiv 2411.05288).
struct SeparatedVocabulary {
  TrainingGraph graph;
  bool input = false;  ///< Block 0 is the token embedding.
  bool output = true;  ///< The last block is the output layer.
};

/// The graph in other blocks; its nodes, values and names stay, ids may change.
///
///   0               embeddings of "vocab" tables, looked up by an input of the model
///   1 ... n         the model's blocks 0 ... n-1 without them
///   n + 1           the last linear, plain or with the embedding's table, and the cross-entropy
///
/// Backward nodes are where their forward nodes are, and a gradient's terms are added up where they
/// meet: a table that both ends share has a term from each. Without such an embedding blocks keep
/// their numbers, and the output layer is block n. Forward-only graphs have no gradients.
///
/// Throws Error(kInvalidConfig), which says what the model ends in, if that is no linear with a
/// cross-entropy over the axis "vocab", or if something else uses the logits.
SeparatedVocabulary separate_vocabulary(const TrainingGraph& model);

}  // namespace weft::mesh
