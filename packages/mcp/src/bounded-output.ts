import { boundText } from '@dormouse/contracts'
import { OUTPUT_MAX_BYTES } from './limits.ts'

export function boundedOutput(text: string): string {
  return boundText(text, OUTPUT_MAX_BYTES, 'print less, or write to a file and read parts of it')
}
