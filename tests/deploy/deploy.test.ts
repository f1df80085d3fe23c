import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { DaemonSet } from 'kubernetes-models/apps/v1'
import { Namespace, Service } from 'kubernetes-models/v1'
import { expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { parseDockerfile } from '../../packages/server/src/templates/recipe/parse-dockerfile.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const KINDS = { DaemonSet, Namespace, Service }

async function readManifest() {
  const text = await readFile(join(root, 'deploy/kubernetes.yaml'), 'utf8')
  return parseAllDocuments(text).map((document) => document.toJS())
}

function validate(object: { kind: keyof typeof KINDS }): void {
  new KINDS[object.kind](object as never).validate()
}

test('the Kubernetes manifest follows the schemas of its kinds', async () => {
  const objects = await readManifest()
  expect(objects.map(({ kind }) => kind)).toEqual(['Namespace', 'DaemonSet', 'Service'])
  for (const object of objects) validate(object)
  const [, wrong] = structuredClone(objects)
  wrong.spec.template.spec.containers[0].securityContext.privileged = 'yes'
  expect(() => validate(wrong)).toThrow('must be boolean')
})

test('the systemd unit is one that systemd accepts', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-unit-'))
  try {
    const text = await readFile(join(root, 'deploy/dormouse.service'), 'utf8')
    const unit = join(directory, 'dormouse.service')
    const verify = async (content: string) => {
      await writeFile(unit, content)
      const { stderr } = await promisify(execFile)('systemd-analyze', ['verify', unit]).catch(
        (error) => error,
      )
      return (stderr as string).split('\n').filter((line) => line.includes('dormouse.service'))
    }
    const here = text.replace('/opt/dormouse/dormouse', join(root, 'dormouse'))
    expect(await verify(here)).toEqual([])
    expect(await verify(here.replace('KillMode=process', 'KillMode=nobody'))).not.toEqual([])
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
})

test('the image of the Dockerfile has the program that the Kubernetes manifest starts', async () => {
  const { stages } = parseDockerfile(await readFile(join(root, 'deploy/Dockerfile'), 'utf8'), {})
  const instructions = stages.flatMap((stage) => stage.instructions)
  const [, { spec }] = await readManifest()
  const [container] = spec.template.spec.containers
  expect(instructions).toContainEqual(
    expect.objectContaining({ type: 'entrypoint', command: { args: container.command } }),
  )
  const script = instructions.flatMap((one) =>
    one.type === 'run' && 'script' in one.command ? [one.command.script] : [],
  )
  const [program = ''] = /setup\/\S+\.mjs/.exec(script.join('\n')) ?? []
  expect(existsSync(join(root, program))).toBe(true)
  const ignored = (await readFile(join(root, 'deploy/Dockerfile.dockerignore'), 'utf8')).trim().split('\n')
  // What set-up builds for the machine of the image must not come from that of the caller.
  expect(ignored).toEqual(expect.arrayContaining(['.dormouse', 'node_modules', '**/build', '**/dist']))
})
