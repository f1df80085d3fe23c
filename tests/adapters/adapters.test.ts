import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sandboxTools } from 'dormouse/tools'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { AdapterProject } from './adapter-project.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const TSC = join(root, 'node_modules/typescript/bin/tsc')

/** Frameworks accept what the adapters return, by the frameworks' own types. */
const PROGRAM = `
import { Agent } from '@openai/agents'
import { Agent as MastraAgent } from '@mastra/core/agent'
import { generateText, type ToolSet } from 'ai'
import type { MessageParam, ToolUnion } from '@anthropic-ai/sdk/resources/messages'
import type { StructuredToolInterface } from '@langchain/core/tools'
import { dormouseTools as ai } from 'dormouse/ai'
import { dormouseTools as anthropic } from 'dormouse/anthropic'
import { dormouseTools as langchain } from 'dormouse/langchain'
import { dormouseTools as mastra } from 'dormouse/mastra'
import { dormouseTools as openai } from 'dormouse/openai-agents'
import { dormouse } from 'dormouse/computesdk'
import { sandboxTools } from 'dormouse/tools'

export const aiTools: ToolSet = ai()
export const agent = new Agent({ name: 'a', tools: openai() })
export const langchainTools: StructuredToolInterface[] = langchain()
export const mastraAgent = new MastraAgent({ name: 'a', instructions: '', model: 'x/y', tools: mastra() })
export const anthropicTools: ToolUnion[] = [...anthropic().tools] as ToolUnion[]
export const answer = async (message: { content: { type: string }[] }): Promise<MessageParam> => ({
  role: 'user',
  content: (await anthropic().answer(message)) as never,
})
export const provider = dormouse().sandbox.create()
export const names: string[] = sandboxTools().map(({ name }) => name)
export { generateText }
`

describe('adapters of agent frameworks, in a project with the published SDK and the real frameworks', async () => {
  const examples = (await readdir(join(root, 'examples/adapters'))).filter((name) => name.endsWith('.mjs'))
  let server: ServerProcess
  let project: AdapterProject
  beforeAll(async () => {
    ;[server, project] = await Promise.all([ServerProcess.start(), AdapterProject.make()])
  })
  afterAll(async () => {
    await server?.cleanUp()
    await project?.remove()
  })

  test.each(examples)('%s verifies itself, and leaves no sandbox', async (name) => {
    const env = { DORMOUSE_URL: server.url, DORMOUSE_API_KEY: server.key, MASTRA_TELEMETRY_DISABLED: '1' }
    const { stdout } = await project.run([name], env)
    expect(stdout).not.toBe('')
    expect((await server.ok('/v1/sandboxes')).items).toEqual([])
  })

  test('the frameworks accept the types of the adapters', async () => {
    await writeFile(join(project.directory, 'program.mts'), PROGRAM)
    const flags = ['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2023', '--module', 'nodenext']
    const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')]
    const { stdout } = await project
      .run([TSC, ...flags, ...types, 'program.mts'], {})
      .catch((error: { stdout: string }) => error)
    expect(stdout).toBe('')
  })

  test('the tools have the same names, words and inputs in Python', async () => {
    const program = [
      'import json',
      'from dormouse.tools import sandbox_tools',
      'print(json.dumps([[t.name, t.description, t.input_schema] for t in sandbox_tools()]))',
    ]
    const env = { ...process.env, PYTHONPATH: join(root, 'python'), PYTHONDONTWRITEBYTECODE: '1' }
    const { stdout } = await promisify(execFile)('/usr/bin/python3', ['-c', program.join('\n')], { env })
    const ours = sandboxTools().map(({ name, description, inputSchema }) => [name, description, inputSchema])
    expect(JSON.parse(stdout)).toEqual(ours)
  })

  test('a framework that is not installed is not needed by the SDK itself', async () => {
    const { dependencies, peerDependencies, peerDependenciesMeta } = JSON.parse(
      await readFile(join(root, 'packages/sdk/package.json'), 'utf8'),
    )
    expect(dependencies).toBeUndefined()
    for (const name of Object.keys(peerDependencies))
      expect(peerDependenciesMeta[name]).toEqual({ optional: true })
  })
})
