/** What a tool returns to a model. `text` is short enough to read; a note in it says how to get what was left out. */
export interface ToolOutput {
  readonly text: string
  readonly images: readonly ToolImage[]
  /** The tool could not do what was asked, or the code raised an exception. `text` says what to do next. */
  readonly isError: boolean
  /** About how many tokens a model reads for this result. */
  readonly tokens: number
}

export interface ToolImage {
  readonly mediaType: string
  /** Base64 without line breaks. */
  readonly data: string
}

/** English prose and code have about four characters a token with the tokenizers of common models. */
const CHARACTERS_PER_TOKEN = 4
/** What common models count for an image of the size of a plot. */
const TOKENS_PER_IMAGE = 1_600

export function estimateTokens(text: string): number {
  return Math.ceil(text.length / CHARACTERS_PER_TOKEN)
}

export function toolOutput(
  text: string,
  { images = [], isError = false }: { images?: readonly ToolImage[]; isError?: boolean } = {},
): ToolOutput {
  return { text, images, isError, tokens: estimateTokens(text) + images.length * TOKENS_PER_IMAGE }
}
