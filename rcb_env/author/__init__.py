"""Help for authors of papers.

scaffold.py  `rcb new`: a paper to start from
suggest.py   `rcb suggest`: which parts of the code make good challenges
"""
