import { readFile } from 'node:fs/promises'
import type { Sandbox } from '@dormouse/server'
import { runIn, type TestCore } from '../server/test-core.ts'

/**
 * What a fake agent answers, by op: a result, an error when it has a `code`, or nothing at all. It answers `{}` to
 * all others.
 */
export type Answers = Readonly<Record<string, object | 'silence'>>

/**
 * Replaces the agent of a sandbox as code inside can: it boots from files in which `/usr/bin/python3` starts another
 * program.
 */
export async function takeOverAgent(core: TestCore, sandbox: Sandbox, answers: Answers): Promise<void> {
  const program = await readFile(new URL('fake_agent.py', import.meta.url), 'utf8')
  const steps = [
    'import os, sys',
    `open("/opt/fake_agent.py", "w").write(${JSON.stringify(program)})`,
    `open("/opt/answers.json", "w").write(${JSON.stringify(JSON.stringify(answers))})`,
    'real = os.path.realpath("/usr/bin/python3"); os.unlink("/usr/bin/python3")',
    'open("/usr/bin/python3", "w").write(f"#!/bin/sh\\nexec {real} /opt/fake_agent.py\\n")',
    'os.chmod("/usr/bin/python3", 0o755)',
  ]
  await runIn(core, sandbox, steps.join('\n'))
  const { id } = await sandbox.snapshot({ name: undefined, kind: 'files' })
  await sandbox.rollback(id)
}
