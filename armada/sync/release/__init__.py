"""Can a host be destroyed without losing anything?"""
