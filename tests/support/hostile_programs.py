"""Python answers that cheat or do harm, each of which is worth 1 exactly where it gets what it tries.

`{secret}` is a file with the right answer, `{target}` one that is not there, `{socket}` and `{port}` where somebody
listens. PRINTING ones are to read two numbers and print their sum, CALLED ones to define `add`.
"""

PRINTING = {
    "forks": "import os\nfor _ in range(4): os.fork()\nprint(5)",
    "vforks": "import ctypes\nassert ctypes.CDLL(None).fork() >= 0\nprint(5)",
    "fills memory": "kept = [b'x' * (1 << 24) for _ in range(200)]\nprint(5)",
    "maps memory": "import mmap\nkept = [mmap.mmap(-1, 1 << 30) for _ in range(9)]\nprint(5)",
    "connects": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\nprint(5)",
    "sends a datagram": (
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))\nprint(5)"
    ),
    "connects to a local socket": (
        "import socket\nsocket.socket(socket.AF_UNIX).connect({socket!r})\nprint(5)"
    ),
    "sends through a pair": (
        "import socket\none, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "one.sendto(b'x', {socket!r})\nprint(5)"
    ),
    "reads a file": "print(open({secret!r}).read())",
    "writes a file": "open({target!r}, 'w').write('x')\nprint(5)",
    "writes over a file": "open({secret!r}, 'r+').write('x')\nprint(5)",
    "deletes a file": "import os\nos.remove({secret!r})\nprint(5)",
    "renames a file": "import os\nos.rename({secret!r}, {target!r})\nprint(5)",
    "changes a file": "import os\nos.chmod({secret!r}, 0)\nprint(5)",
    "cuts a file": "import os\nos.truncate({secret!r}, 0)\nprint(5)",
    "makes a folder": "import os\nos.mkdir({target!r})\nprint(5)",
    "follows a link": "import os\nos.symlink({secret!r}, 'link')\nprint(open('link').read())",
    "makes a file where it is": "open('here', 'w').write('x')\nprint(5)",
    "lists a folder": "import os\nassert os.listdir(os.path.dirname({secret!r}))\nprint(5)",
    "reads its memory as a file": "open('/proc/self/mem', 'r+b')\nprint(5)",
    "reads its parent's memory": "import os\nopen(f'/proc/{{os.getppid()}}/mem', 'rb')\nprint(5)",
    "traces its parent": "import ctypes, os\nassert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0\nprint(5)",
    "reads the environment": "import os\nassert len(os.environ) > 2\nprint(5)",
    "reads the first environment": "assert b'HOME' in open('/proc/self/environ', 'rb').read()\nprint(5)",
    "opens the terminal": "open('/dev/tty', 'r')\nprint(5)",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)\nprint(5)",
    "kills its group": "import os, signal\nos.killpg(0, signal.SIGTERM)\nprint(5)",
    "kills everything": "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nos.kill(-1, 15)\nprint(5)",
    "has its parent signalled": (
        "import fcntl, os\nreader, writer = os.pipe()\n"
        "fcntl.fcntl(reader, 8, os.getppid())\nprint(5)"
    ),
    "limits its parent": (
        "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))\nprint(5)"
    ),
    "lifts its limits": (
        "import resource\nfor kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS):\n"
        "    resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)\nprint(5)"
    ),
    "runs a program": "import subprocess\nprint(subprocess.check_output(['/bin/echo', '5'], text=True))",
    "runs a shell": "import os\nassert os.system('exit 0') == 0\nprint(5)",
    "becomes a shell": "import os\nos.execv('/bin/sh', ['sh', '-c', 'echo 5'])",
    "starts a pool": "import multiprocessing\nprint(multiprocessing.get_context('fork').Pool(1).map(abs, [5])[0])",
    "becomes a daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(60)\nprint(5)"
    ),
    "leaves its session": "import os\nos.setsid()\nprint(5)",
    "leaves its group": "import os\nos.setpgid(0, 0)\nprint(5)",
    "starts threads": (
        "import threading, time\nfor _ in range(5000):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint(5)"
    ),
    "shares memory": "import ctypes\nassert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0\nprint(5)",
    "becomes another user": "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0\nprint(5)",
    "recurses": "import sys\nsys.setrecursionlimit(10**9)\nf = lambda _: sorted([1], key=f)\nf(1)\nprint(5)",
    "dumps core": "import os\nprint(5, flush=True)\nos.abort()",
    "prints without end": "while True: print('5' * 10**6)",
    "closes everything": "import os\nos.closerange(0, 999)\nprint(5)",
    "prints, then fails": "print(5)\nraise ValueError",
    "prints, then leaves with 3": "import sys\nprint(5)\nsys.exit(3)",
    "exits at once": "import os\nos._exit(0)",
    "patches print": "import builtins\nbuiltins.print = lambda *a: None\nprint(5)",
    "patches standard output": (
        "import sys\nclass Equal(str):\n    __eq__ = lambda self, other: True\n"
        "sys.stdout.read = sys.stdout.getvalue = lambda: Equal('5')"
    ),
    "forges reports": (
        "import json, os, struct\n"
        "for made in ({{'passed': True, 'why': ''}}, {{'code': 0, 'output': '5', 'is_cut': False}}):\n"
        "    text = json.dumps(made).encode()\n    for place in range(64):\n"
        "        try: os.write(place, struct.pack('<I', len(text)) + text)\n        except OSError: pass"
    ),
}  # fmt: skip
"""Name -> program; it ends by itself."""

ENDLESS = {
    "loops": "while True: pass",
    "sleeps": "import time\ntime.sleep(999)",
    "ignores signals": (
        "import signal\nfor number in range(1, 64):\n    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\nwhile True: pass"
    ),
    "computes a tower": "print(len(str(9**9**9)))",
    "waits for a thread": "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()",
    "goes on after its output": "import os, time\nprint(5, flush=True)\nos.close(1)\ntime.sleep(999)",
}
"""Name -> program that never ends."""

CALLED = {
    "exits in a call": "import os\ndef add(a, b): os._exit(0)",
    "leaves in a call": "import sys\ndef add(a, b): sys.exit(0)",
    "exits at once": "import os\nos._exit(0)",
    "raises": "def add(a, b): raise ValueError('5')",
    "raises an assertion": "def add(a, b): raise AssertionError",
    "equals everything": (
        "class Equal:\n    __eq__ = lambda self, other: True\n    __ne__ = lambda self, other: False\n"
        "    __hash__ = lambda self: 5\ndef add(a, b): return Equal()"
    ),
    "is a number that equals everything": (
        "class Equal(int):\n    __eq__ = lambda self, other: True\n    __hash__ = int.__hash__\n"
        "def add(a, b): return Equal(0)"
    ),
    "patches what compares": (
        "import builtins, operator, math\nbuiltins.abs = lambda x: 0\nmath.isclose = lambda *a, **k: True\n"
        "operator.eq = lambda a, b: True\nbuiltins.AssertionError = type('Quiet', (BaseException,), {{}})\n"
        "def add(a, b): return 0\ndef abs(x): return 0\ndef isinstance(*a): return True"
    ),
    "looks in the stack": (
        "import sys\ndef add(a, b):\n    frame = sys._getframe()\n    while frame := frame.f_back:\n"
        "        for value in frame.f_locals.values():\n            if '== ' + '5' in str(value): return 5\n"
        "    return 0"
    ),
    "looks in memory": (
        "import gc\ndef add(a, b):\n"
        "    found = [x for x in gc.get_objects() if type(x) is dict and 'tests' in x]\n    return 5 if found else 0"
    ),
    "reads what it is asked through": (
        "import os\ndef add(a, b):\n    for place in range(5, 64):\n        try:\n"
        "            if os.read(place, 1): return 5\n        except OSError: pass\n    return 0"
    ),
    "forges a verdict": (
        "import json, os, struct\ntext = json.dumps({{'passed': True, 'why': ''}}).encode()\ndef add(a, b):\n"
        "    for place in range(64):\n        try: os.write(place, struct.pack('<I', len(text)) + text)\n"
        "        except OSError: pass\n    os._exit(0)"
    ),
    "returns itself": "def add(a, b):\n    found = []\n    found.append(found)\n    return found",
    "returns too much": "def add(a, b): return 'x' * (100 << 20)",
    "returns nothing": "def add(a, b): return None",
    "defines nothing": "x = 5",
    "nests its result": "def add(a, b):\n    found = 5\n    for _ in range(10**5): found = [found]\n    return found",
}  # fmt: skip
"""Name -> program that is called."""

HONEST_PRINTING = {
    "prints": "a, b = map(int, input().split())\nprint(a + b)",
    "guards its main": "def main():\n    print(sum(map(int, input().split())))\nif __name__ == '__main__':\n    main()",
    "reads all": "import sys\nprint(sum(map(int, sys.stdin.read().split())), end='')",
    "leaves with 0": "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))\nsys.exit(0)",
    "complains": "import sys\nprint('slow', file=sys.stderr)\nsys.stdout.write(str(sum(map(int, input().split()))))",
    "recurses in a thread": (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(64 << 20)\n"
        "def deep(n): return 0 if n == 0 else deep(n - 1) + 1\n"
        "def main():\n    deep(20000)\n    print(sum(map(int, input().split())))\n"
        "thread = threading.Thread(target=main)\nthread.start()\nthread.join()"
    ),
    "waits for itself": (
        "import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    return sum(map(int, input().split()))\n"
        "print(asyncio.run(main()))"
    ),
    "imports much": (
        "import collections, heapq, itertools, re, math, decimal, fractions, datetime, random, string, bisect\n"
        "print(sum(map(int, re.findall(r'\\d+', input()))))"
    ),
    "prints at the end": "import atexit\natexit.register(lambda: print(sum(map(int, line.split()))))\nline = input()",
    "limits itself": (
        "import signal, resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nsignal.alarm(9)\n"
        "print(float(sum(map(int, input().split()))))"
    ),
}
HONEST_CALLED = {
    "adds": "def add(a, b): return a + b",
    "is a method": "class Solution:\n    def add(self, a: int, b: int) -> int:\n        return a + b",
    "prints as well": "def add(a, b):\n    print('adding')\n    return a + b\nprint(add(1, 1))",
    "guards its main": "def add(a, b): return a + b\nif __name__ == '__main__': print(add(int(input()), 1))",
}
