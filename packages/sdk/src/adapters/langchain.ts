import { type DynamicStructuredTool, tool } from '@langchain/core/tools'
import { type SandboxToolsOptions, sandboxTools } from '../tools/sandbox-tools.ts'

/** The tools of a sandbox for LangChain and LangGraph. The artifact of a result has its images and token estimate. */
export function dormouseTools(options: SandboxToolsOptions = {}): DynamicStructuredTool[] {
  return sandboxTools(options).map(({ name, description, inputSchema, execute }) =>
    tool(
      async (input, config) => {
        const output = await execute(input, { signal: config?.signal })
        const images = output.images.map(({ mediaType, data }) => ({
          type: 'image_url',
          image_url: { url: `data:${mediaType};base64,${data}` },
        }))
        const content = images.length === 0 ? output.text : [{ type: 'text', text: output.text }, ...images]
        return [content, output]
      },
      { name, description, schema: inputSchema, responseFormat: 'content_and_artifact' },
    ),
  )
}
