export type { InputField, InputSchema } from './input-schema.ts'
export {
  type SandboxSource,
  type SandboxTool,
  type SandboxToolsOptions,
  sandboxTools,
} from './sandbox-tools.ts'
export type { SandboxToolName, ToolCallOptions } from './tool-definition.ts'
export { estimateTokens, type ToolImage, type ToolOutput } from './tool-output.ts'
