export interface FunctionTool {
  readonly type: 'function'
  readonly name: string
}
export function tool(options: {
  readonly name: string
  readonly description: string
  readonly parameters: object
  readonly strict: false
  readonly execute: (
    input: unknown,
    context?: unknown,
    details?: { readonly signal?: AbortSignal },
  ) => Promise<unknown>
}): FunctionTool
