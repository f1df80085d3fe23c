import { countTokens as count } from 'gpt-tokenizer/encoding/o200k_base'

/**
 * Tokens of the code that a model writes, and the same with its history: the model reads each token again in the next
 * turn.
 */
export function countTokens(sent: readonly string[]): { written: number; withHistory: number } {
  const written = sent.reduce((sum, code) => sum + count(code), 0)
  return { written, withHistory: 2 * written }
}
