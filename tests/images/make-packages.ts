import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A wheel and an npm package, as their indexes have them. `package-index.mjs` of tests/network serves them. */
export function makePackages(scratch: string): [string, string] {
  const wheel = join(scratch, 'greeting_wheel-2.0-py3-none-any.whl')
  const program = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("greeting_wheel.py", 'greeting = "hello from a wheel"\\n')
    info = "greeting_wheel-2.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: greeting-wheel\\nVersion: 2.0\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(info + "RECORD", "")
`
  execFileSync('/usr/bin/python3', ['-I', '-c', program, wheel])
  const source = join(scratch, 'npm')
  mkdirSync(join(source, 'package'), { recursive: true })
  const manifest = { name: 'greeting-module', version: '3.0.0', main: 'index.js' }
  writeFileSync(join(source, 'package/package.json'), JSON.stringify(manifest))
  writeFileSync(join(source, 'package/index.js'), 'exports.greeting = "hello from a module"\n')
  const tarball = join(scratch, 'greeting-module-3.0.0.tgz')
  execFileSync('tar', ['-C', source, '-czf', tarball, 'package'])
  return [wheel, tarball]
}
