import { countTokens as count } from 'gpt-tokenizer/encoding/o200k_base'

/** What the code costs that a model writes: once when it writes it, once more when it reads it back as history with the next turn. */
export function countTokens(sent: readonly string[]): { written: number; withHistory: number } {
  const written = sent.reduce((sum, code) => sum + count(code), 0)
  return { written, withHistory: 2 * written }
}
