import { BoundedText } from '@dormouse/contracts'
import { OUTPUT_MAX_BYTES } from '../limits.ts'

const ADVICE = 'print less, or write to a file and read parts of it'

/** Keeps the beginning and the end of long output. */
export function outputCollector(): BoundedText {
  return new BoundedText(OUTPUT_MAX_BYTES, ADVICE)
}

export function boundedOutput(text: string): string {
  const output = outputCollector()
  output.add(text)
  return output.text()
}
