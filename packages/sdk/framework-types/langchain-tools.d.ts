export interface DynamicStructuredTool {
  readonly name: string
  invoke(input: unknown, config?: object): Promise<unknown>
}
export function tool(
  execute: (input: never, config?: { readonly signal?: AbortSignal }) => Promise<unknown>,
  fields: {
    readonly name: string
    readonly description: string
    readonly schema: object
    readonly responseFormat: 'content_and_artifact'
  },
): DynamicStructuredTool
