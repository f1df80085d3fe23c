import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, type E2bServer, loadClient } from './e2b-server.ts'

const BUILD_TIMEOUT_MS = 400_000
/** A gateway as the client starts it: it stores its token and serves MCP in the background. */
const GATEWAY = `#!/bin/sh
mkdir -p /etc/mcp-gateway
printf %s "$GATEWAY_ACCESS_TOKEN" > /etc/mcp-gateway/.token
mkdir -p /srv/mcp && printf %s "$2" > /srv/mcp/mcp
nohup python3 -m http.server 50005 --directory /srv/mcp >/dev/null 2>&1 &
`

/** Builds of templates through the client. */
export function templateSuite(e2b: E2bServer): void {
  let client: Client
  let context: string
  beforeAll(async () => {
    client = await loadClient()
    context = await mkdtemp(join(tmpdir(), 'dormouse-e2b-context-'))
    await mkdir(join(context, 'folder'))
    await writeFile(join(context, 'folder/one.txt'), 'one\n')
    await writeFile(join(context, 'folder/two.txt'), 'two\n')
    await writeFile(join(context, 'gateway.sh'), GATEWAY)
  })
  afterAll(() => rm(context, { recursive: true, force: true }))

  describe('builds', () => {
    test(
      'a template has the files, variables, user, directory and program of its steps',
      async () => {
        const { Template, Sandbox, waitForPort } = client
        const template = Template({ fileContextPath: context })
          .fromBaseImage()
          .copy('folder/*', 'copied/')
          .copyItems([{ src: 'folder/one.txt', dest: '/srv/one.txt', user: 'root', mode: 0o600 }])
          .setEnvs({ GREETING: 'hello there' })
          .runCmd(
            'echo "$GREETING from $(id -un) in $PWD"; [[ -f copied/two.txt ]] && mv copied/two.txt link',
          )
          .runCmd('whoami > /root/who', { user: 'root' })
          .setWorkdir('/app')
          .setStartCmd('python3 -m http.server 8099', waitForPort(8099))
        const lines: string[] = []
        const built = await Template.build(template, 'first:v1', {
          ...e2b.options,
          ...{ cpuCount: 1, memoryMB: 512 },
          onBuildLogs: ({ message }) => void lines.push(message),
        })
        expect(built).toMatchObject({ name: 'first:v1', tags: ['v1'] })
        expect(lines).toContain('hello there from user in /home/user')
        const sandbox = await Sandbox.create('first:v1', e2b.options)
        const check =
          'pwd; cat ~/link; sudo cat /root/who /srv/one.txt; stat -c %U:%a /srv/one.txt; echo $GREETING'
        expect((await sandbox.commands.run(check)).stdout).toBe(
          '/app\ntwo\nroot\none\nroot:600\nhello there\n',
        )
        expect((await sandbox.commands.run('curl -s localhost:8099 | head -1')).stdout).toMatch(/^<!DOCTYPE/)
        expect(await sandbox.getInfo()).toMatchObject({ cpuCount: 1, memoryMB: 512 })
        await sandbox.kill()
      },
      BUILD_TIMEOUT_MS,
    )

    test(
      'tags name builds, and the next build on a template starts with its user and files',
      async () => {
        const { Template, Sandbox } = client
        const second = await Template.build(
          Template().fromTemplate('first:v1').setUser('root').runCmd('cp /srv/one.txt /srv/second.txt'),
          'second',
          e2b.options,
        )
        const { buildId } = await Template.assignTags('second', ['production', 'stable'], e2b.options)
        expect(buildId).toBe(second.buildId)
        await Template.removeTags('second', 'stable', e2b.options)
        const tags = await Template.getTags(second.templateId, e2b.options)
        expect(tags.map(({ tag }) => tag)).toEqual(['default', 'production'])
        const sandbox = await Sandbox.create('second:production', e2b.options)
        expect((await sandbox.commands.run('id -un; cat /srv/second.txt')).stdout).toBe('root\none\n')
        await sandbox.kill()
        await expect(Sandbox.create('second:stable', e2b.options)).rejects.toThrow(/404.*'stable'/)
        await expect(Template.assignTags('second', ':wrong', e2b.options)).rejects.toBeInstanceOf(
          client.TemplateError,
        )
        await expect(Template.getTags('nothing', e2b.options)).rejects.toBeInstanceOf(client.TemplateError)
      },
      BUILD_TIMEOUT_MS,
    )

    test(
      'a failed step is a BuildError with its output, and the step before it is not repeated',
      async () => {
        const { Template } = client
        const lines: string[] = []
        const failing = Template().fromTemplate('base').runCmd('echo first').runCmd('ls /nowhere')
        const build = () =>
          Template.build(failing, 'failing', {
            ...e2b.options,
            onBuildLogs: ({ message }) => void lines.push(message),
          })
        const error = await build().catch((caught: unknown) => caught)
        expect(error).toBeInstanceOf(client.BuildError)
        expect((error as Error).message).toContain("cannot access '/nowhere'")
        expect(lines).toContain('first')
        lines.length = 0
        await expect(build()).rejects.toBeInstanceOf(client.BuildError)
        expect(lines.map((line) => line.trim())).toContain('cached')
        lines.length = 0
        const fresh = Template().skipCache().fromTemplate('base').runCmd('echo first').runCmd('ls /nowhere')
        const again = {
          ...e2b.options,
          onBuildLogs: ({ message }: { message: string }) => void lines.push(message),
        }
        await expect(Template.build(fresh, 'failing', again)).rejects.toBeInstanceOf(client.BuildError)
        expect(lines).toContain('first')
        expect(await Template.exists('failing', e2b.options)).toBe(true)
        await expect(client.Sandbox.create('failing', e2b.options)).rejects.toThrow(/404.*'default'/)
      },
      BUILD_TIMEOUT_MS,
    )

    test(
      'a build in the background has a status, and its template can be deleted meanwhile',
      async () => {
        const { Template } = client
        const slow = Template().fromTemplate('base').runCmd('sleep 600').setReadyCmd('true')
        const info = await Template.buildInBackground(slow, 'slow', e2b.options)
        expect((await Template.getBuildStatus(info, e2b.options)).status).toBe('building')
        const remove = await fetch(`${e2b.server.url}/templates/${info.templateId}`, {
          method: 'DELETE',
          headers: { 'x-api-key': e2b.apiKey },
        })
        expect(remove.status).toBe(204)
        expect(await Template.exists('slow', e2b.options)).toBe(false)
        await expect(Template.getBuildStatus(info, e2b.options)).rejects.toBeInstanceOf(client.BuildError)
      },
      BUILD_TIMEOUT_MS,
    )

    test('every other method of the builder makes steps that are known here', async () => {
      const { Template } = client
      const bases = [
        Template().fromDebianImage(),
        Template().fromUbuntuImage(),
        Template().fromFedoraImage(),
        Template().fromAlpineImage(),
        Template().fromArchImage(),
        Template().fromPythonImage(),
        Template().fromNodeImage(),
        Template().fromBunImage(),
        Template().fromImage('registry.example.com/team/image', { username: 'u', password: 'p' }),
        Template().fromAWSRegistry('image', { accessKeyId: 'a', secretAccessKey: 'b', region: 'c' }),
        Template().fromGCPRegistry('image', { serviceAccountJSON: '{}' as never }),
        Template().fromDockerfile('FROM debian\nRUN true\nWORKDIR /srv\nCMD ["sleep", "1"]'),
      ]
      for (const base of bases) expect(JSON.parse(await Template.toJSON(base))).toHaveProperty('fromImage')
      expect(Template.toDockerfile(Template().fromImage('debian').runCmd('true'))).toContain('RUN true')
      const installing = Template()
        .fromImage('debian')
        .pipInstall('a')
        .npmInstall('b')
        .bunInstall('c')
        .aptInstall('d')
        .gitClone('https://git.example.com/r')
        .makeDir('made')
        .rename('a', 'b')
        .makeSymlink('a', 'b')
        .remove('a')
      const container = Template().fromTemplate('devcontainer').betaDevContainerPrebuild('/d')
      const types = new Set<string>()
      for (const made of [installing, container, container.betaSetDevContainerStart('/d')])
        for (const { type } of JSON.parse(await Template.toJSON(made)).steps) types.add(type)
      expect([...types]).toEqual(['RUN'])
      const servers = Template()
        .fromTemplate('mcp-gateway')
        .addMcpServer('time' as never)
      expect(JSON.parse(await Template.toJSON(servers)).steps[0].type).toBe('RUN')
    })

    test('steps that are not known here are refused with what is wrong', async () => {
      const ask = (path: string, body: object) =>
        fetch(e2b.server.url + path, {
          method: 'POST',
          headers: { 'x-api-key': e2b.apiKey },
          body: JSON.stringify(body),
        })
      const { templateID, buildID } = await (await ask('/v3/templates', { name: 'refused' })).json()
      const start = (body: object) => ask(`/v2/templates/${templateID}/builds/${buildID}`, body)
      const refused = async (body: object) => {
        const response = await start(body)
        return `${response.status} ${(await response.json()).message}`
      }
      expect(await refused({ steps: [{ type: 'EXPOSE', args: ['80'] }] })).toMatch(/^400 steps\.0: 'EXPOSE'/)
      expect(await refused({ steps: [{ type: 'COPY', args: ['a', 'b'], filesHash: 'unknown' }] })).toMatch(
        /^400 /,
      )
      expect(await refused({ fromImage: 'x', fromImageRegistry: { type: 'aws' } })).toMatch(
        /^400 fromImageRegistry/,
      )
      expect((await ask('/v3/templates', { name: 'Not A Name' })).status).toBe(400)
      expect((await ask('/v3/templates', { name: 'base' })).status).toBe(403)
      const link = await fetch(`${e2b.server.url}/template-files/${'0'.repeat(64)}`, {
        method: 'PUT',
        body: 'x',
      })
      expect(link.status).toBe(403)
    })

    test(
      'a template with a gateway of its own serves MCP at the URL of the client',
      async () => {
        const { Template, Sandbox } = client
        const gateway = Template({ fileContextPath: context })
          .fromBaseImage()
          .copy('gateway.sh', '/usr/local/bin/mcp-gateway', { user: 'root', mode: 0o755 })
        await Template.build(gateway, 'mcp-gateway', e2b.options)
        const sandbox = await Sandbox.create({ ...e2b.options, mcp: { time: {} } as never })
        const again = await Sandbox.connect(sandbox.sandboxId, e2b.options)
        expect(await again.getMcpToken()).toBe(await sandbox.getMcpToken())
        const url = new URL(sandbox.getMcpUrl())
        expect(url.host).toBe(sandbox.getHost(50_005))
        const reach = () =>
          fetch(`${e2b.server.url}${url.pathname}`, {
            headers: { 'e2b-sandbox-id': sandbox.sandboxId, 'e2b-sandbox-port': '50005' },
          })
        await expect.poll(async () => (await reach()).status).toBe(200)
        expect(await (await reach()).json()).toEqual({ time: {} })
        await sandbox.kill()
      },
      BUILD_TIMEOUT_MS,
    )
  })
}
