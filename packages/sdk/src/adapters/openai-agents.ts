import { type FunctionTool, tool } from '@openai/agents'
import { type SandboxToolsOptions, sandboxTools } from '../tools/sandbox-tools.ts'

/** The tools of a sandbox for `new Agent({ tools })` of the OpenAI Agents SDK. */
export function dormouseTools(options: SandboxToolsOptions = {}): FunctionTool[] {
  return sandboxTools(options).map(({ name, description, inputSchema, execute }) =>
    tool({
      name,
      description,
      parameters: inputSchema,
      // Strict schemas have no optional inputs.
      strict: false,
      execute: async (input, _context, details) => {
        const { text, images } = await execute(input, { signal: details?.signal })
        if (images.length === 0) return text
        return [{ type: 'text', text }, ...images.map((image) => ({ type: 'image', image }))]
      },
    }),
  )
}
