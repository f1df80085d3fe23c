export interface Tool {
  readonly id: string
  readonly description: string
}
export function createTool(options: {
  readonly id: string
  readonly description: string
  readonly inputSchema: object
  readonly execute: (input: never, options?: { readonly abortSignal?: AbortSignal }) => Promise<unknown>
}): Tool
