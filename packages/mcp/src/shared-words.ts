import { type SandboxToolName, sandboxTools } from 'dormouse/tools'

/** The tools that adapters of agent frameworks have, too. A model reads the same words about them everywhere. */
const TOOLS = new Map(sandboxTools().map((tool) => [tool.name, tool]))

/** What the tool does, in the words of the SDK. */
export function aboutTool(name: SandboxToolName): string {
  return TOOLS.get(name)?.description ?? ''
}

/** What the input of the tool means, in the words of the SDK. */
export function aboutInput(name: SandboxToolName, input: string): string {
  return TOOLS.get(name)?.inputSchema.properties[input]?.description ?? ''
}
