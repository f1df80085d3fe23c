import { expect, test } from 'vitest'
import type { Client } from './e2b-server.ts'

interface Parts {
  readonly client: Client
  readonly sandbox: InstanceType<Client['Sandbox']>
}

/** The git module of the client, against repositories inside the sandbox. */
export function gitSuite(parts: () => Parts): void {
  test('git commits, branches, resets and restores', async () => {
    const { git, files } = parts().sandbox
    const repo = '/home/user/repo'
    await git.configureUser('a', 'a@b.c')
    await git.setConfig('init.defaultBranch', 'main')
    expect(await git.getConfig('init.defaultBranch')).toBe('main')
    await git.init(repo, { initialBranch: 'main' })
    await files.write(`${repo}/a`, '1')
    expect((await git.status(repo)).isClean).toBe(false)
    await git.add(repo)
    await git.commit(repo, 'first', { authorName: 'a', authorEmail: 'a@b.c' })
    expect((await git.status(repo)).isClean).toBe(true)
    await git.createBranch(repo, 'side')
    await git.checkoutBranch(repo, 'main')
    expect((await git.branches(repo)).branches).toEqual(expect.arrayContaining(['main', 'side']))
    await git.deleteBranch(repo, 'side')
    await files.write(`${repo}/a`, '2')
    await git.restore(repo, { paths: ['a'] })
    expect(await files.read(`${repo}/a`)).toBe('1')
    await files.write(`${repo}/a`, '3')
    await git.reset(repo, { mode: 'hard' })
    expect(await files.read(`${repo}/a`)).toBe('1')
  })

  test('git clones, pushes and pulls, and errors have their classes', async () => {
    const { client, sandbox } = parts()
    const { git, files, commands } = sandbox
    const [repo, bare, copy] = ['/home/user/repo', '/home/user/bare.git', '/home/user/copy']
    await git.init(bare, { bare: true })
    await git.remoteAdd(repo, 'origin', bare)
    expect(await git.remoteGet(repo, 'origin')).toBe(bare)
    await git.push(repo, { remote: 'origin', branch: 'main', setUpstream: true })
    await git.clone(bare, { path: copy, branch: 'main' })
    expect(await files.read(`${copy}/a`)).toBe('1')
    await files.write(`${repo}/b`, 'new')
    await git.add(repo, { all: true })
    await git.commit(repo, 'second')
    await git.push(repo)
    await git.pull(copy)
    expect(await files.read(`${copy}/b`)).toBe('new')
    await git.createBranch(repo, 'lonely')
    await expect(git.push(repo, { setUpstream: false })).rejects.toBeInstanceOf(client.GitUpstreamError)
    await git.dangerouslyAuthenticate({ username: 'u', password: 'p', host: 'git.example.com' })
    expect((await commands.run('cat ~/.git-credentials')).stdout).toContain('u:p@git.example.com')
  })
}
