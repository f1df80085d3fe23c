import { createTool, type Tool } from '@mastra/core/tools'
import { type Field, z } from 'zod'
import type { InputField, InputSchema } from '../tools/input-schema.ts'
import { type SandboxToolsOptions, sandboxTools } from '../tools/sandbox-tools.ts'

/** The tools of a sandbox for `new Agent({ tools })` of Mastra. */
export function dormouseTools(options: SandboxToolsOptions = {}): Record<string, Tool> {
  const tools = sandboxTools(options).map(({ name, description, inputSchema, execute }) => {
    const tool = createTool({
      id: name,
      description,
      inputSchema: zodSchema(inputSchema),
      execute: (input, call) => execute(inputOf(input), { signal: call?.abortSignal }),
    })
    return [name, tool] as const
  })
  return Object.fromEntries(tools)
}

/** Version 1 passes the input itself, earlier ones a context that has it. No tool has an input of that name. */
function inputOf(input: object): unknown {
  return 'context' in input ? input.context : input
}

function zodSchema({ properties, required }: InputSchema): object {
  const fields = Object.entries(properties).map(([name, field]) => {
    const type = zodField(field).describe(field.description)
    return [name, required.includes(name) ? type : type.optional()] as const
  })
  return z.object(Object.fromEntries(fields))
}

function zodField({ type, minimum, maximum, minLength }: InputField): Field {
  if (type === 'string') return minLength === undefined ? z.string() : z.string().min(minLength)
  const atLeast = minimum === undefined ? z.int() : z.int().min(minimum)
  return maximum === undefined ? atLeast : atLeast.max(maximum)
}
